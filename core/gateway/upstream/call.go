package upstream

import (
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

// maxErrorText bounds the part of an error answer that is forwarded.
const maxErrorText = 16 << 10

// Version is the version of this program in the result of get_version.
type Version struct {
	Version string `json:"version"`
	Build   string `json:"build,omitempty"`
	Commit  string `json:"commit,omitempty"`
}

// Call calls a tool with arguments, a JSON object or nil, and returns an MCP tool
// result. Failures that the caller of the tool can act on are results with isError:
// invalid arguments, an API that cannot be reached, or an HTTP status other than 2xx. An
// error is returned for a tool that is not in the catalog ([ErrUnknownTool]), when ctx
// is done (its cause) and after Close ([ErrClosed]).
//
// ctx contributes its deadline and cancellation only: no value in it, and so no
// credential of a caller, reaches the API.
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
		if detail := strings.TrimSpace(cut(u.redact.body(a.body, 2*maxErrorText), maxErrorText)); detail != "" {
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
	b, _ := printable.Marshal(struct { // strings always encode
		Content []content `json:"content"`
		IsError bool      `json:"isError,omitempty"`
	}{[]content{c}, isError})
	return b
}

func failure(text string) json.RawMessage {
	return encodeResult(content{Type: "text", Text: &text}, true)
}

// success converts an answer of the API to a tool result: text if it is valid UTF-8, else
// an image, audio or a resource, by its media type.
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

// versions answers get_version with the versions of this program and of the API, or the
// reason why the API cannot be reached.
func (u *Upstream) versions(ctx context.Context) (json.RawMessage, error) {
	var report struct {
		Mcptrack Version `json:"mcptrack"`
		Server   struct {
			Version string `json:"version,omitempty"`
			Build   string `json:"build,omitempty"`
			Commit  string `json:"commit,omitempty"`
			Error   string `json:"error,omitempty"`
		} `json:"server"`
	}
	report.Mcptrack = u.opts.Self
	v, err := u.fetchVersion(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		report.Server.Error = u.redact.text(printable.Reason(err, 500))
	default:
		report.Server.Version, report.Server.Build = cut(v.text("version"), 256), cut(v.build, 256)
		report.Server.Commit = cut(cmp.Or(v.text("git_commit"), v.text("commit")), 256)
	}
	text, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("encode versions: %w", err)
	}
	safe := string(printable.JSON(text))
	return encodeResult(content{Type: "text", Text: &safe}, false), nil
}
