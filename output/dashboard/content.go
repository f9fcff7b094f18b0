package dashboard

import (
	"context"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/status"
)

const (
	// maxText is the size of the largest text that is shown, in bytes.
	maxText = 4 << 20
	// maxReads is how many resources are read from servers at a time.
	maxReads = 4
	// readTime is how long reading one resource from its server may take.
	readTime = 10 * time.Second
)

// content answers with the text of a followed resource: of its current version or of the
// version whose digest is the parameter digest. The tracker has the current texts of resources
// that changed since its start; other current texts are read from the server.
func (d *Dashboard) content(w http.ResponseWriter, r *http.Request) {
	id, uri := r.PathValue("id"), r.URL.Query().Get("uri")
	st, res, ok := d.followed(id, uri)
	if st.ID == "" {
		d.elsewhere(w, r, func(all []resource) { d.storedContent(w, r, all) })
		return
	}
	if text := r.URL.Query().Get("digest"); text != "" && text != res.Digest.String() {
		old, found := d.version(r.Context(), text)
		if !found {
			refuse(w, http.StatusNotFound, "this version of the resource is not available")
			return
		}
		answer(w, content{resource{URI: uri, MimeType: res.MimeType, Size: int64(len(old)), Digest: text}, &old})
		return
	}
	if !ok {
		refuse(w, http.StatusNotFound, "the resource is not followed")
		return
	}
	out := content{newResource(&st, &res), res.Text}
	if out.Text == nil && !res.Gone && res.Size <= maxText && d.opts.Read != nil {
		out.Text = d.readText(r.Context(), id, res)
	}
	answer(w, out)
}

// version returns the stored text that has the digest; ok is false if there is none.
func (d *Dashboard) version(ctx context.Context, digest string) (text string, ok bool) {
	parsed, err := catalog.ParseDigest(digest)
	if err != nil || d.opts.Contents == nil {
		return "", false
	}
	text, ok, err = d.opts.Contents.Get(ctx, parsed)
	return text, ok && err == nil
}

// readText returns the current text of a resource, from the cache or from its server. It
// returns nil if reading fails, or if the content is too large, is not text, or is not the
// version that the tracker knows.
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

// followed returns the server with the id and its followed resource with the URI; false if
// there is no such resource. The server's ID is "" if this process does not follow the server.
func (d *Dashboard) followed(id, uri string) (status.ServerStatus, status.ResourceStatus, bool) {
	st, _ := d.opts.Snapshot().Server(id)
	for _, res := range st.Resources {
		if res.URI == uri {
			return st, res, true
		}
	}
	return st, status.ResourceStatus{}, false
}

// read returns the content of a resource as its server has it.
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
