package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"image"
	_ "image/gif" // for picture, as the next two
	_ "image/jpeg"
	_ "image/png"
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

// definition returns the version with the digest in the parameter digest of an item's definition, or the current
// one.
func (d *Dashboard) definition(r *http.Request) (any, error) {
	out := definition{ServerID: r.PathValue("id"), Item: r.URL.Query().Get("item"), Digest: r.URL.Query().Get("digest")}
	it, ok := history.ParseItem(out.Item)
	if _, err := d.known(out.ServerID); err != nil || !ok || it.Content() {
		return nil, missing("no such server or item")
	}
	now, err := d.current(r.Context(), out.ServerID, it)
	if out.Digest = cmp.Or(out.Digest, now.Digest.String()); err == nil && now.Raw != nil && now.Digest.String() == out.Digest {
		out.Text = string(now.Raw)
	} else if out.Text, ok = d.version(r.Context(), out.Digest); !ok {
		return nil, missing("this version of the definition is not available")
	}
	return out, nil
}

// content returns the text of a followed resource: its current version, or the version with the digest in
// the parameter digest; with the parameter rendered also the elements of a Markdown text, if it is small
// enough (see [markdown.Tree]). With the parameter item it returns a definition instead. The tracker has the
// current texts of resources that changed since it started; other current texts are read from the server,
// or from the log if another process follows the server.
func (d *Dashboard) content(r *http.Request) (any, error) {
	query := r.URL.Query()
	if query.Has("item") {
		return d.definition(r)
	}
	id, uri, digest := r.PathValue("id"), query.Get("uri"), query.Get("digest")
	var out content
	st, here := d.opts.Snapshot().Server(id)
	if res, ok := find(st, uri); ok {
		out.resource = newResource(&st, &res)
	} else if !here {
		followed, err := d.followed(r.Context(), id)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(followed, func(res resource) bool { return res.URI == uri }); i >= 0 {
			out.resource = followed[i]
		}
	}
	switch {
	case digest != "" && digest != out.Digest:
		old, found := d.version(r.Context(), digest)
		if !found {
			old, found = d.skillFile(r.Context(), st, uri, digest)
		}
		if !found {
			return nil, missing("this version of the resource is not available")
		}
		out = content{resource: resource{ServerID: id, URI: uri, MimeType: out.MimeType, Size: int64(len(old)), Digest: digest}, Text: &old}
	case out.URI == "":
		return nil, missing("the resource is not followed")
	case here:
		out.Text = d.readText(r.Context(), st, uri)
	default:
		text, found := d.version(r.Context(), out.Digest)
		if !found {
			known, _ := d.known(id)
			return nil, missing("the text is known only to the process that follows the server: " + follower(known))
		}
		out.Text = &text
	}
	if query.Has("rendered") && out.Text != nil {
		out.Rendered = markdown.Tree([]byte(*out.Text))
	}
	return out, nil
}

// version returns the stored text with the given digest. ok is false if there is none.
func (d *Dashboard) version(ctx context.Context, digest string) (text string, ok bool) {
	parsed, err := catalog.ParseDigest(digest)
	if err != nil {
		return "", false
	}
	text, ok, err = d.events.Contents().Get(ctx, parsed)
	return text, ok && err == nil
}

// readText returns the current text of a followed resource, from the tracker, the cache or its server. It
// returns nil if the read fails, or if the content is too large, is not text, or is not the version that
// the tracker reported.
func (d *Dashboard) readText(ctx context.Context, st status.ServerStatus, uri string) *string {
	res, ok := find(st, uri)
	if !ok || res.Text != nil || res.Gone || res.Size > maxText || d.opts.Read == nil {
		return res.Text
	}
	c, err := d.read(ctx, st.ID, res)
	if err != nil || c.Size > maxText || !res.Digest.IsZero() && c.Digest != res.Digest {
		return nil
	}
	text, ok := c.Text()
	if !ok {
		return nil
	}
	return &text
}

// find returns a followed resource of a server that this process follows.
func find(st status.ServerStatus, uri string) (status.ResourceStatus, bool) {
	i := slices.IndexFunc(st.Resources, func(r status.ResourceStatus) bool { return r.URI == uri })
	if i < 0 {
		return status.ResourceStatus{}, false
	}
	return st.Resources[i], true
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

// image serves the content of a followed resource that is an image. It reads the resource from its server,
// unless this version is in the cache. Other content of a server cannot be read this way.
func (d *Dashboard) image(w http.ResponseWriter, r *http.Request) {
	st, _ := d.opts.Snapshot().Server(r.PathValue("id"))
	res, ok := find(st, r.URL.Query().Get("uri"))
	if !ok || d.opts.Read == nil || res.Gone || res.Size > maxImage || !strings.HasPrefix(res.MimeType, "image/") {
		refuse(w, missing("no such image"))
		return
	}
	tag := strconv.Quote(res.Digest.String())
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("Vary", "Cookie, Authorization")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	content, err := d.read(r.Context(), st.ID, res)
	if err != nil {
		refuse(w, &refusal{http.StatusBadGateway, "the MCP server did not return the image"})
		return
	}
	data, format, err := picture(content)
	if err != nil {
		refuse(w, &refusal{http.StatusUnsupportedMediaType, err.Error()})
		return
	}
	if content.Digest == res.Digest {
		w.Header().Set("ETag", tag)
	}
	w.Header().Set("Content-Type", "image/"+format)
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Header().Set("Content-Disposition", "inline")
	_, _ = w.Write(data)
}

// picture returns the bytes of the first content of a resource, and their format; see [checkPicture].
func picture(r cache.Resource) (data []byte, format string, err error) {
	var result struct {
		Contents []struct {
			Blob string `json:"blob"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(r.Raw(), &result); err != nil || len(result.Contents) == 0 {
		return nil, "", errors.New("no content")
	}
	if data, err = base64.StdEncoding.DecodeString(result.Contents[0].Blob); err != nil {
		return nil, "", errors.New("the image is not encoded as base64")
	}
	format, err = checkPicture(data)
	return data, format, err
}

// checkPicture returns the format of an image: png, jpeg or gif, which browsers cannot take for anything else
// (SVG is a document). The dimensions are limited: a small file can decode to gigabytes.
func checkPicture(data []byte) (format string, err error) {
	if len(data) == 0 || len(data) > maxImage {
		return "", errors.New("the image is empty or too large")
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return "", errors.New("the content is not an image in a supported format")
	}
	if config.Width <= 0 || config.Height <= 0 || config.Width > maxPixels/config.Height {
		return "", errors.New("the image has too many pixels")
	}
	return format, nil
}
