// Package dashboard is the page on which people see what happens, and the JSON
// behind it.
//
// The page is three embedded files without a build step. It shows the servers, a
// live feed, and of a resource its history, content and diffs. It makes elements of
// text only, never of markup, so whatever servers call things appears as such, and
// images of what is nothing else. All tabs of a browser share one event stream; the
// next tab goes on where the last one ended, and a refused stream is asked for again.
//
// Nothing here changes anything: all routes are GET. One makes a request of a server,
// to show a followed resource that is an image.
package dashboard

import (
	"embed"
	"io/fs"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/tracker"
)

//go:embed assets
var files embed.FS

// Options are what the dashboard shows. Snapshot is needed.
type Options struct {
	Version  string
	Snapshot func() *tracker.Snapshot
	// Last is the epoch and the number of the last event that clients of the feeds
	// can have seen. nil: not shown.
	Last func() (epoch string, seq uint64)
	// Clients counts those who listen to the feeds; nil: not shown.
	Clients func() int
	// Client reads the images that are shown; nil: none are.
	Client func(server string) *tracker.Client
}

// Dashboard answers the routes of the page.
type Dashboard struct {
	opts    Options
	started time.Time
	images  chan struct{} // a counting semaphore over reads of images
}

// New makes a dashboard.
func New(opts Options) *Dashboard {
	return &Dashboard{opts: opts, started: time.Now(), images: make(chan struct{}, maxImages)}
}

// Routes are the patterns (see [http.ServeMux]) and who answers them.
func (d *Dashboard) Routes() map[string]http.Handler {
	assets, err := fs.Sub(files, "assets")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return map[string]http.Handler{
		"GET /{$}":                        page(assets),
		"GET /assets/":                    http.StripPrefix("/assets/", http.FileServerFS(assets)),
		"GET /api/status":                 http.HandlerFunc(d.status),
		"GET /api/servers":                http.HandlerFunc(d.servers),
		"GET /api/servers/{id}/resources": http.HandlerFunc(d.resources),
		"GET /api/servers/{id}/content":   http.HandlerFunc(d.content),
		"GET /api/servers/{id}/image":     http.HandlerFunc(d.image),
	}
}

func page(assets fs.FS) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, assets, "index.html")
	})
}
