package dashboard

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/markdown"
)

const (
	// maxText limits the size of a displayed text in bytes.
	maxText = 4 << 20
	// maxReads limits concurrent reads from servers.
	maxReads = 4
	// readTime bounds one read from a server.
	readTime = 10 * time.Second
)

// definition is the response of /api/servers/{id}/content for an item.
type definition struct {
	ServerID string `json:"serverId"`
	Item     string `json:"item"`
	Digest   string `json:"digest"`
	Text     string `json:"text"` // JSON as the server sent it
}

// definition serves the version with the digest in the parameter digest of an item's definition.
func (d *Dashboard) definition(w http.ResponseWriter, r *http.Request) {
	out := definition{ServerID: r.PathValue("id"), Item: r.URL.Query().Get("item"), Digest: r.URL.Query().Get("digest")}
	it, ok := history.ParseItem(out.Item)
	known := func(s status.Summary) bool { return s.ID == out.ServerID }
	if !ok || it.Content() || !slices.ContainsFunc(d.opts.Servers(), known) {
		refuse(w, http.StatusNotFound, "no such server or item")
		return
	}
	if out.Text, ok = d.version(r.Context(), out.Digest); !ok {
		now, err := d.current(r.Context(), out.ServerID, it)
		if err != nil || now.Raw == nil || now.Digest.String() != out.Digest {
			refuse(w, http.StatusNotFound, "this version of the definition is not available")
			return
		}
		out.Text = string(now.Raw)
	}
	answer(w, out)
}

// content serves the text of a followed resource: its current version, or the version with the
// digest in the parameter digest. With the parameter item it serves a definition instead. The tracker has the current texts of resources that changed since
// it started; other current texts are read from the server.
func (d *Dashboard) content(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("item") {
		d.definition(w, r)
		return
	}
	id, uri := r.PathValue("id"), r.URL.Query().Get("uri")
	st, res, ok := d.followed(id, uri)
	if st.ID == "" {
		d.elsewhere(w, r, func(all []resource) { d.storedContent(w, r, all) })
		return
	}
	if text := r.URL.Query().Get("digest"); text != "" && text != res.Digest.String() {
		old, found := d.version(r.Context(), text)
		if !found {
			old, found = d.skillFile(r.Context(), st, uri, text)
		}
		if !found {
			refuse(w, http.StatusNotFound, "this version of the resource is not available")
			return
		}
		answerContent(w, r, content{resource: resource{ServerID: id, URI: uri, MimeType: res.MimeType, Size: int64(len(old)), Digest: text}, Text: &old})
		return
	}
	if !ok {
		refuse(w, http.StatusNotFound, "the resource is not followed")
		return
	}
	out := content{resource: newResource(&st, &res), Text: res.Text}
	if out.Text == nil && !res.Gone && res.Size <= maxText && d.opts.Read != nil {
		out.Text = d.readText(r.Context(), id, res)
	}
	answerContent(w, r, out)
}

// answerContent answers with a content; with the elements of a Markdown text if the request has the
// parameter rendered and the text is small enough (see [markdown.Tree]).
func answerContent(w http.ResponseWriter, r *http.Request, out content) {
	if r.URL.Query().Has("rendered") && out.Text != nil {
		out.Rendered = markdown.Tree([]byte(*out.Text))
	}
	answer(w, out)
}

// version returns the stored text with the given digest. ok is false if there is none.
func (d *Dashboard) version(ctx context.Context, digest string) (text string, ok bool) {
	parsed, err := catalog.ParseDigest(digest)
	if err != nil || d.opts.Contents == nil {
		return "", false
	}
	text, ok, err = d.opts.Contents.Get(ctx, parsed)
	return text, ok && err == nil
}

// readText returns the current text of a resource, from the cache or from its server. It returns
// nil if the read fails, or if the content is too large, is not text, or is not the version that
// the tracker reported.
func (d *Dashboard) readText(ctx context.Context, id string, res status.ResourceStatus) *string {
	c, err := d.read(ctx, id, res)
	if err != nil || c.Size > maxText || !res.Digest.IsZero() && c.Digest != res.Digest {
		return nil
	}
	text, ok := c.Text()
	if !ok {
		return nil
	}
	return &text
}

// skillFile reads a file of a skill from its server, if the skill's entry lists it with the digest.
func (d *Dashboard) skillFile(ctx context.Context, st status.ServerStatus, uri, digest string) (text string, ok bool) {
	e := session.SkillIn(st.Lists[catalog.Skills], uri)
	if e == nil || d.opts.Read == nil {
		return "", false
	}
	if f, listed := e.File(uri); !listed || f.Digest.String() != digest || f.Size > maxText {
		return "", false
	}
	c, err := d.read(ctx, st.ID, status.ResourceStatus{URI: uri})
	if err != nil {
		return "", false
	}
	text, ok = c.Text()
	return text, ok && e.Verify(uri, []byte(text)) == nil // it may have changed since
}

// followed returns the server with the given id and its followed resource with the given URI, or
// false if there is no such resource. The server's ID is empty if this process does not follow the
// server.
func (d *Dashboard) followed(id, uri string) (status.ServerStatus, status.ResourceStatus, bool) {
	st, _ := d.opts.Snapshot().Server(id)
	for _, res := range st.Resources {
		if res.URI == uri {
			return st, res, true
		}
	}
	return st, status.ResourceStatus{}, false
}

// read reads a resource from its server.
func (d *Dashboard) read(ctx context.Context, id string, res status.ResourceStatus) (cache.Resource, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	select {
	case d.reads <- struct{}{}:
		defer func() { <-d.reads }()
	case <-ctx.Done():
		return cache.Resource{}, context.Cause(ctx)
	}
	return d.opts.Read(ctx, id, res.URI, res.Digest)
}

const (
	maxImage  = 4 << 20 // bytes
	maxPixels = 50_000_000
)

// image answers with the content of a followed resource that is an image. It reads the
// resource from its server, unless this version is in the cache. Other content of a server
// cannot be read this way.
func (d *Dashboard) image(w http.ResponseWriter, r *http.Request) {
	if d.opts.Read == nil {
		refuse(w, http.StatusNotFound, "this dashboard does not show images")
		return
	}
	id, uri := r.PathValue("id"), r.URL.Query().Get("uri")
	_, res, ok := d.followed(id, uri)
	if !ok || res.Gone || res.Size > maxImage || !strings.HasPrefix(res.MimeType, "image/") {
		refuse(w, http.StatusNotFound, "no such image")
		return
	}
	tag := strconv.Quote(res.Digest.String())
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("Vary", "Cookie, Authorization")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content, err := d.read(r.Context(), id, res)
	if err != nil {
		refuse(w, http.StatusBadGateway, "the MCP server did not return the image")
		return
	}
	data, mimeType, err := picture(content)
	if err != nil {
		refuse(w, http.StatusUnsupportedMediaType, err.Error())
		return
	}
	if content.Digest == res.Digest {
		w.Header().Set("ETag", tag)
	}
	w.Header().Set("Content-Type", mimeType)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Header().Set("Content-Disposition", "inline")
	_, _ = w.Write(data)
}

// picture returns the bytes of the first content of a resource. It must be in an image format
// that browsers cannot take for anything else (SVG is a document), and its dimensions are
// limited: a small file can decode to gigabytes.
func picture(r cache.Resource) (data []byte, mimeType string, err error) {
	var result struct {
		Contents []struct {
			Blob string `json:"blob"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(r.Raw(), &result); err != nil || len(result.Contents) == 0 {
		return nil, "", errors.New("no content")
	}
	if data, err = base64.StdEncoding.DecodeString(result.Contents[0].Blob); err != nil || len(data) == 0 || len(data) > maxImage {
		return nil, "", errors.New("the image is empty or too large")
	}
	switch mimeType = http.DetectContentType(data); mimeType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, "", errors.New("the content is not an image in a supported format")
	}
	width, height, err := dimensions(data, mimeType)
	if err != nil {
		return nil, "", errors.New("the content is not a valid image")
	}
	if width <= 0 || height <= 0 || width > maxPixels/height {
		return nil, "", errors.New("the image has too many pixels")
	}
	return data, mimeType, nil
}

// dimensions reads the size of an image from its header.
func dimensions(data []byte, mimeType string) (width, height int, err error) {
	if mimeType == "image/webp" {
		return webpDimensions(data)
	}
	var config image.Config
	switch mimeType {
	case "image/png":
		config, err = png.DecodeConfig(bytes.NewReader(data))
	case "image/jpeg":
		config, err = jpeg.DecodeConfig(bytes.NewReader(data))
	case "image/gif":
		config, err = gif.DecodeConfig(bytes.NewReader(data))
	}
	return config.Width, config.Height, err
}

// webpDimensions reads the first chunk of a WebP file (RFC 9649): VP8X, VP8L or VP8.
func webpDimensions(data []byte) (width, height int, err error) {
	if len(data) < 30 {
		return 0, 0, errors.New("too short")
	}
	switch b := data[20:]; string(data[12:16]) {
	case "VP8X":
		return 1 + int(b[4]) + int(b[5])<<8 + int(b[6])<<16, 1 + int(b[7]) + int(b[8])<<8 + int(b[9])<<16, nil
	case "VP8L":
		bits := binary.LittleEndian.Uint32(b[1:])
		return 1 + int(bits&0x3fff), 1 + int(bits>>14&0x3fff), nil
	case "VP8 ":
		return int(binary.LittleEndian.Uint16(b[6:]) & 0x3fff), int(binary.LittleEndian.Uint16(b[8:]) & 0x3fff), nil
	}
	return 0, 0, errors.New("unknown chunk")
}

// elsewhere handles a request about a server that another process follows: it calls f with the
// stored states of the server's resources, sorted by URI, or rejects the request.
func (d *Dashboard) elsewhere(w http.ResponseWriter, r *http.Request, f func([]resource)) {
	id := r.PathValue("id")
	known := func(s status.Summary) bool { return s.ID == id }
	if d.opts.Stored == nil || !slices.ContainsFunc(d.opts.Servers(), known) {
		refuse(w, http.StatusNotFound, "no such server")
		return
	}
	states, err := d.opts.Stored(r.Context(), id)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, "the stored state of the server cannot be read")
		return
	}
	out := make([]resource, 0, len(states.Resources))
	for at, st := range states.Resources {
		res := resource{ServerID: id, URI: at.URI, MimeType: st.MimeType, Size: st.Size, Changed: stamp(st.When)}
		switch st.Digest {
		case catalog.Gone():
			res.Gone = true
		case catalog.Unread(): // its digest is not known
		default:
			res.Digest = st.Digest.String()
		}
		out = append(out, res)
	}
	slices.SortFunc(out, func(a, b resource) int { return strings.Compare(a.URI, b.URI) })
	f(out)
}

// storedContent serves the text of a resource of a server that another process follows, if that
// process stored it. all has the resources of the server.
func (d *Dashboard) storedContent(w http.ResponseWriter, r *http.Request, all []resource) {
	uri, digest := r.URL.Query().Get("uri"), r.URL.Query().Get("digest")
	i := slices.IndexFunc(all, func(res resource) bool { return res.URI == uri })
	if i < 0 {
		refuse(w, http.StatusNotFound, "the resource is not followed")
		return
	}
	out := content{resource: all[i]}
	if digest == "" {
		digest = out.Digest
	}
	text, found := d.version(r.Context(), digest)
	if !found {
		refuse(w, http.StatusNotFound, "the text is known only to the process that follows the server: "+d.process(r.PathValue("id")))
		return
	}
	if digest != out.Digest {
		out.Digest, out.Size, out.Changed = digest, int64(len(text)), ""
	}
	out.Text = &text
	answerContent(w, r, out)
}

// process returns the name of the process that follows a server, or "no process at present".
func (d *Dashboard) process(id string) string {
	for _, s := range d.opts.Servers() {
		if s.ID == id && s.FollowedBy != "" {
			return s.FollowedBy
		}
	}
	return "no process at present"
}
