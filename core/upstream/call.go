package upstream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/printable"
)

// maxErrorText bounds what is shown of an answer that is an error.
const maxErrorText = 16 << 10

// Version is what get_version says of this program.
type Version struct {
	Version string `json:"version"`
	Build   string `json:"build,omitempty"`
	Commit  string `json:"commit,omitempty"`
}

// Call calls a tool with arguments, a JSON object or nothing, and returns an MCP
// tool result. Whatever the caller of the tool can learn from is such a result with
// isError: wrong arguments, an API that cannot be reached, an HTTP status that is
// no success. An error is returned for a tool that is not in the catalog
// ([ErrUnknownTool]), when ctx ends (its cause), and after Close ([ErrClosed]).
//
// ctx brings its deadline and its end, nothing else: no value in it, so no
// credential of whoever asked, reaches the API.
func (u *Upstream) Call(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
	ctx, done, err := u.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if name == getVersion {
		return u.versions(ctx)
	}
	e := u.Catalog().routes[name]
	if e == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownTool, show(name))
	}
	t, err := e.fill(arguments)
	if err == nil && len(t.body) > MaxAnswerBytes {
		err = fmt.Errorf("the arguments are larger than %d MiB", MaxAnswerBytes>>20)
	}
	if err != nil {
		return failure(err.Error()), nil
	}
	within, cancel := context.WithTimeoutCause(ctx, u.opts.Timeout, fmt.Errorf("no answer within %s", u.opts.Timeout))
	defer cancel()
	req, err := u.newRequest(within, e.method, t.path, t.body)
	if err != nil {
		return failure(err.Error()), nil
	}
	if t.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	a, err := u.send(req, MaxAnswerBytes)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return failure(e.route() + ": " + printable.Line(err.Error(), 500)), nil
	case a.status < 200 || a.status > 299:
		text := e.route() + ": HTTP " + statusText(a.status)
		if detail := strings.TrimSpace(cut(string(a.body[:min(len(a.body), 2*maxErrorText)]), maxErrorText)); detail != "" {
			text += "\n" + detail
		}
		return failure(text), nil
	}
	return u.success(a, req.URL.EscapedPath()), nil
}

// content is one block of a tool result.
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
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(struct { // strings always encode
		Content []content `json:"content"`
		IsError bool      `json:"isError,omitempty"`
	}{[]content{c}, isError})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func failure(text string) json.RawMessage {
	return encodeResult(content{Type: "text", Text: &text}, true)
}

// success is the answer as content: text where it is text, else as its media type
// says.
func (u *Upstream) success(a answer, path string) json.RawMessage {
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

// versions answers get_version: the API's own words if it can be reached, or why
// not.
func (u *Upstream) versions(ctx context.Context) (json.RawMessage, error) {
	var told struct {
		Mcptrack Version `json:"mcptrack"`
		Server   struct {
			Version string `json:"version,omitempty"`
			Build   string `json:"build,omitempty"`
			Commit  string `json:"commit,omitempty"`
			Error   string `json:"error,omitempty"`
		} `json:"server"`
	}
	told.Mcptrack = u.opts.Self
	v, err := u.fetchVersion(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		told.Server.Error = printable.Line(err.Error(), 500)
	default:
		told.Server.Version, told.Server.Build = cut(v.word("version"), 256), cut(v.build, 256)
		told.Server.Commit = cut(cmp.Or(v.word("git_commit"), v.word("commit")), 256)
	}
	text, err := json.Marshal(told)
	if err != nil {
		return nil, fmt.Errorf("tell versions: %w", err)
	}
	shown := string(printable.JSON(text))
	return encodeResult(content{Type: "text", Text: &shown}, false), nil
}
