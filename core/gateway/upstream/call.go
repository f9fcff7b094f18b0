package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/printable"
)

// maxErrorText is the maximum number of bytes of an error response that are forwarded.
const maxErrorText = 16 << 10

// Call calls a tool with arguments, which are a JSON object or nil, and returns an MCP tool result.
// Failures that the caller of the tool can act on are results with isError: invalid arguments, an
// unreachable API, or an HTTP status other than 2xx. Call returns an error if the tool is not in
// the catalog ([ErrUnknownTool]), and if ctx is done (its cause).
//
// Only the deadline and cancellation of ctx are used: none of its values, and therefore no
// credential of a caller, is sent to the API.
func (u *Upstream) Call(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	if name == getVersion {
		return u.versions(ctx)
	}
	e := u.Catalog().routes[name]
	if e == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownTool, bounded(name))
	}
	t, err := e.fill(arguments)
	if err == nil && len(t.body) > MaxAnswerBytes {
		err = fmt.Errorf("the arguments are larger than %d MiB", MaxAnswerBytes>>20)
	}
	if err != nil {
		return failure(printable.Reason(err, 500)), nil
	}
	within, cancel := context.WithTimeoutCause(ctx, u.opts.Timeout, fmt.Errorf("no response within %s", u.opts.Timeout))
	defer cancel()
	req, err := u.newRequest(within, e.method, t.path, t.body)
	if err != nil {
		return failure(printable.Reason(err, 500)), nil
	}
	if t.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	a, err := u.send(req, MaxAnswerBytes)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return failure(e.route() + ": " + u.redact.text(printable.Reason(err, 500))), nil
	case a.status < 200 || a.status > 299:
		text := e.route() + ": HTTP " + statusText(a.status)
		if detail := strings.TrimSpace(truncate(u.redact.body(a.body, 2*maxErrorText), maxErrorText)); detail != "" {
			text += "\n" + detail
		}
		return failure(text), nil
	}
	return u.success(a, req.URL.EscapedPath()), nil
}

// content is one content block of a tool result.
type content struct {
	Type     string    `json:"type"`
	Text     *string   `json:"text,omitempty"`
	Data     string    `json:"data,omitempty"`
	MimeType string    `json:"mimeType,omitempty"`
	Resource *resource `json:"resource,omitempty"`
}

type resource struct {
	URI      string `json:"uri"`
	MimeType string `json:"mimeType"`
	Blob     string `json:"blob"`
}

func encodeResult(c content, isError bool) json.RawMessage {
	b, _ := printable.Marshal(struct { // encoding strings cannot fail
		Content []content `json:"content"`
		IsError bool      `json:"isError,omitempty"`
	}{[]content{c}, isError})
	return b
}

func failure(text string) json.RawMessage {
	return encodeResult(content{Type: "text", Text: &text}, true)
}

// success converts a response from the API to a tool result: text if it is valid UTF-8, otherwise
// an image, audio or a resource, depending on its media type.
func (u *Upstream) success(a response, path string) json.RawMessage {
	if utf8.Valid(a.body) {
		text := string(a.body)
		if text == "" {
			text = "HTTP " + statusText(a.status)
		}
		return encodeResult(content{Type: "text", Text: &text}, false)
	}
	media, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil {
		media = "application/octet-stream"
	}
	data := base64.StdEncoding.EncodeToString(a.body)
	switch kind, _, _ := strings.Cut(media, "/"); kind {
	case "image", "audio":
		return encodeResult(content{Type: kind, Data: data, MimeType: media}, false)
	}
	uri := u.base.Scheme + "://" + u.base.Host + path
	return encodeResult(content{Type: "resource", Resource: &resource{uri, media, data}}, false)
}

// versions handles get_version. It returns the versions of this program and of the API, or the
// reason why the API is unreachable.
func (u *Upstream) versions(ctx context.Context) (json.RawMessage, error) {
	var report struct {
		Mcptrack struct {
			Version string `json:"version"`
		} `json:"mcptrack"`
		Server struct {
			Version string `json:"version,omitempty"`
			Build   string `json:"build,omitempty"`
			Commit  string `json:"commit,omitempty"`
			Error   string `json:"error,omitempty"`
		} `json:"server"`
	}
	report.Mcptrack.Version = u.opts.Version
	v, err := u.fetchVersion(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		report.Server.Error = u.redact.text(printable.Reason(err, 500))
	default:
		report.Server.Version, report.Server.Build = truncate(v.text("version"), 256), truncate(v.build, 256)
		report.Server.Commit = truncate(cmp.Or(v.text("git_commit"), v.text("commit")), 256)
	}
	text, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("encode versions: %w", err)
	}
	safe := string(printable.JSON(text))
	return encodeResult(content{Type: "text", Text: &safe}, false), nil
}

// maxURL is the maximum length of a URL including its arguments, in bytes.
const maxURL = 64 << 10

// An apiRequest is the request for a call: an escaped path with query, and a JSON body or nil.
type apiRequest struct {
	path string
	body []byte
}

// fill inserts arguments into the tool's route. Its errors are meant for the caller of the tool,
// who can correct the arguments.
func (e *apiTool) fill(arguments json.RawMessage) (apiRequest, error) {
	args, err := e.arguments(arguments)
	if err != nil {
		return apiRequest{}, err
	}
	query := url.Values{}
	var body bytes.Buffer
	for _, p := range e.params {
		raw, given := args[p.name]
		if !given {
			continue
		}
		switch p.in {
		case "query":
			for _, value := range queryValues(p, raw) {
				query.Add(p.name, value)
			}
		case "body":
			if body.Len() == 0 {
				body.WriteByte('{')
			} else {
				body.WriteByte(',')
			}
			body.WriteString(quoted(p.name) + ":")
			body.Write(raw)
		}
	}
	var t apiRequest
	var path strings.Builder
	for _, piece := range e.path {
		path.WriteString(piece.text)
		if piece.param == "" {
			continue
		}
		value := scalar(args[piece.param])
		if value == "" || escapesPath(value) || !oneSegment(value) {
			return t, fmt.Errorf("parameter %q must be a single path segment: not empty, not \".\" or \"..\", and without slashes, backslashes or control characters, even encoded", piece.param)
		}
		path.WriteString(url.PathEscape(value))
	}
	// Each value was checked separately, but several values, or a value next to fixed text, may
	// still form a dot segment.
	if escapesPath(path.String()) {
		return t, errors.New("the arguments result in a path with \".\" or \"..\" segments")
	}
	template := strings.Split(e.route(), "/")
	for i, segment := range strings.Split(path.String(), "/") {
		if strings.Contains(template[i], "{") && !oneSegment(segment) {
			return t, errors.New("an argument adds segments to the path")
		}
	}
	if len(query) > 0 {
		path.WriteString("?" + query.Encode())
	}
	if path.Len() > maxURL {
		return t, fmt.Errorf("the arguments make the URL longer than %d KiB", maxURL>>10)
	}
	t.path = path.String()
	if body.Len() > 0 {
		body.WriteByte('}')
		t.body = body.Bytes()
	}
	return t, nil
}

// arguments returns the arguments by name after checking their types. A null argument is treated as
// absent.
func (e *apiTool) arguments(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var args map[string]json.RawMessage
	if len(bytes.TrimSpace(raw)) > 0 && json.Unmarshal(raw, &args) != nil {
		return nil, errors.New("the arguments must be an object")
	}
	known := map[string]bool{}
	for _, p := range e.params {
		known[p.name] = true
		value, given := args[p.name]
		if string(value) == "null" {
			delete(args, p.name)
			given = false
		}
		if !given {
			if p.required {
				return nil, fmt.Errorf("parameter %q is required", p.name)
			}
			continue
		}
		if !p.accepts(value) {
			return nil, fmt.Errorf("parameter %q must be of type %s", p.name, p.kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !known[name] {
			return nil, fmt.Errorf("unknown parameter %s", strconv.Quote(truncate(name, maxName)))
		}
	}
	return args, nil
}

// accepts reports whether a JSON value has the type of the parameter.
func (p param) accepts(raw json.RawMessage) bool {
	switch first := raw[0]; p.kind {
	case "string":
		return first == '"'
	case "boolean":
		return first == 't' || first == 'f'
	case "array":
		return first == '['
	case "object":
		return first == '{'
	case "integer":
		return isNumber(first) && !bytes.ContainsAny(raw, ".eE")
	default:
		return isNumber(first)
	}
}

func isNumber(first byte) bool { return first == '-' || '0' <= first && first <= '9' }

// scalar formats a JSON value as text: a string without quotes, a number with its original digits.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}

// queryValues returns the values of one parameter in the query: one per element for an array,
// otherwise a single value. Objects are encoded as JSON.
func queryValues(p param, raw json.RawMessage) []string {
	if p.kind != "array" {
		return []string{scalar(raw)}
	}
	var elements []json.RawMessage
	_ = json.Unmarshal(raw, &elements) // accepts has already checked that it is an array
	values := make([]string, len(elements))
	for i, element := range elements {
		values[i] = scalar(element)
	}
	return values
}
