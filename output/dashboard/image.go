package dashboard

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/tracker"
)

const (
	// maxImage is the largest image that is shown, in bytes.
	maxImage = 4 << 20
	// maxImages is how many are read from servers at a time.
	maxImages = 4
	// imageTime is how long a server may take to hand one out.
	imageTime = 10 * time.Second
)

// image shows a followed resource that is an image. The tracker keeps texts only, so
// the server is asked, unless a client has read this very content already; nothing
// else of a server can be read this way.
func (d *Dashboard) image(w http.ResponseWriter, r *http.Request) {
	if d.opts.Client == nil {
		refuse(w, http.StatusNotFound, "images are not shown here")
		return
	}
	id, uri := r.PathValue("id"), r.URL.Query().Get("uri")
	res, ok := d.followed(id, uri)
	if !ok || res.Gone || res.Size > maxImage || !strings.HasPrefix(res.MimeType, "image/") {
		refuse(w, http.StatusNotFound, "no such image is followed")
		return
	}
	tag := strconv.Quote(res.Digest.String())
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("Vary", "Cookie, Authorization")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	select {
	case d.images <- struct{}{}:
		defer func() { <-d.images }()
	case <-r.Context().Done():
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), imageTime)
	defer cancel()
	content, err := d.read(ctx, id, res)
	if err != nil {
		refuse(w, http.StatusBadGateway, "the server does not hand it out")
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

// followed finds a resource that is followed.
func (d *Dashboard) followed(id, uri string) (tracker.ResourceStatus, bool) {
	st, _ := d.opts.Snapshot().Server(id)
	for _, res := range st.Resources {
		if res.URI == uri {
			return res, true
		}
	}
	return tracker.ResourceStatus{}, false
}

// read returns the content that is kept, if it is the one that is followed, else it
// reads it.
func (d *Dashboard) read(ctx context.Context, id string, res tracker.ResourceStatus) (cache.Resource, error) {
	client := d.opts.Client(id)
	if kept, ok := client.Cache().Resource(res.URI); ok && !kept.Stale && kept.Digest == res.Digest {
		return kept, nil
	}
	return client.ReadResource(ctx, res.URI)
}

// picture returns the bytes of the first entry, which must be what browsers take for
// a picture and for nothing else, whatever the server calls it. SVG is a document.
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
		return nil, "", errors.New("no bytes, or too many")
	}
	switch mimeType = http.DetectContentType(data); mimeType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return data, mimeType, nil
	}
	return nil, "", errors.New("not a picture that can be shown")
}
