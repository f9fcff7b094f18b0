package dashboard

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// following is a tracker that follows a server, and is connected.
func following(t *testing.T, server *sessiontest.Fake, entry config.Server) *tracker.Tracker {
	t.Helper()
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	return tracking(t, entry, func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		r, w, wait := server.Pipe()
		serving.Go(wait)
		return session.OverIO(ctx, r, w, srv, opts)
	})
}

// tracking is a tracker that follows a server, which dial reaches.
func tracking(t *testing.T, entry config.Server, dial session.DialFunc) *tracker.Tracker {
	t.Helper()
	var running sync.WaitGroup
	tr := tracker.New(tracker.Options{Dial: dial})
	tr.Apply(&config.Config{Servers: []config.Server{entry}})
	ctx, stop := context.WithCancel(context.Background())
	running.Go(func() { _ = tr.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	if _, err := tr.Settled(t.Context()); err != nil {
		t.Fatal(err)
	}
	return tr
}

// gallery is a tracker that follows a server with these resources, all known.
func gallery(t *testing.T, resources map[string]sessiontest.Resource) (*tracker.Tracker, *sessiontest.Fake) {
	t.Helper()
	server := sessiontest.New()
	for uri, r := range resources {
		server.SetResource(uri, r)
	}
	tr := following(t, server, config.Server{ID: "gallery", Transport: config.TransportStdio, Enabled: true, Tracking: config.Tracking{TrackResources: true, Read: config.ReadDigest}})
	for known := 0; known < len(resources); {
		known = 0
		st, _ := tr.Snapshot().Server("gallery")
		for _, r := range st.Resources {
			if !r.Digest.IsZero() {
				known++
			}
		}
	}
	return tr, server
}

func TestImage(t *testing.T) {
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	tr, server := gallery(t, map[string]sessiontest.Resource{
		"art:///logo.png": {Blob: drawn.Bytes(), MimeType: "image/png"},
		"art:///fake.png": {Blob: []byte("<html><script>alert(1)</script>"), MimeType: "image/png"},
		"art:///logo.svg": {Blob: []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), MimeType: "image/svg+xml"},
		"art:///text.md":  {Text: "# text", MimeType: "text/markdown"},
	})
	s := serve(t, New(Options{Snapshot: tr.Snapshot, Read: reads(tr)}), nil)
	get := func(uri, tag string) (*http.Response, []byte) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/servers/gallery/image?uri="+url.QueryEscape(uri), nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("If-None-Match", tag)
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r, body
	}
	reads := func() int { return server.Count("resources/read") }
	before := reads()
	var tag string
	for range 2 { // the second one is answered from the cache
		r, body := get("art:///logo.png", "")
		if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "image/png" || !bytes.Equal(body, drawn.Bytes()) {
			t.Errorf("%s %s, %d bytes", r.Status, r.Header.Get("Content-Type"), len(body))
		}
		tag = r.Header.Get("ETag")
	}
	if n := reads() - before; n != 1 {
		t.Errorf("%d reads for showing an image twice", n)
	}
	if r, body := get("art:///logo.png", tag); r.StatusCode != http.StatusNotModified || len(body) != 0 {
		t.Errorf("with its tag: %s, %d bytes", r.Status, len(body))
	}
	for uri, want := range map[string]int{
		"art:///fake.png": http.StatusUnsupportedMediaType, "art:///logo.svg": http.StatusUnsupportedMediaType,
		"art:///text.md": http.StatusNotFound, "art:///other.png": http.StatusNotFound, "": http.StatusNotFound,
	} {
		if r, _ := get(uri, ""); r.StatusCode != want || r.Header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%q: %s, %s", uri, r.Status, r.Header.Get("Content-Type"))
		}
	}
	server.SetResource("art:///other.png", sessiontest.Resource{Blob: drawn.Bytes(), MimeType: "image/png"})
	before = reads()
	if r, _ := get("art:///other.png", ""); r.StatusCode != http.StatusNotFound || reads() != before {
		t.Errorf("what is not followed was read: %s", r.Status)
	}
}

// The page shows a picture, and of what is none its type and size.
func TestRealImage(t *testing.T) {
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	tr, _ := gallery(t, map[string]sessiontest.Resource{
		"art:///a.png": {Blob: drawn.Bytes(), MimeType: "image/png"},
		"art:///b.png": {Blob: []byte("<script>document.title='owned'</script>"), MimeType: "image/png"},
	})
	s := serve(t, New(Options{Snapshot: tr.Snapshot, Read: reads(tr)}), map[string]http.Handler{"GET /events": quiet})
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL + "/?server=gallery")
	p.Until(`document.querySelectorAll('#rail-list .row').length === 2`) // one server has no level of its own
	key(p, "rail-list", "Home")
	p.Until(`document.querySelector('#detail-body img')?.naturalWidth === 3`)
	key(p, "rail-list", "ArrowDown")
	p.Until(`document.querySelector('#detail-body').textContent.includes('cannot be shown') && document.title === 'mcptrack'`)
}
