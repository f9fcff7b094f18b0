// Package dashboard is the web page of serve-sse, and the JSON API behind it.
//
// The page consists of embedded files without a build step: servers with their tools,
// prompts, history and log, resources with content, versions and diffs, a live feed and
// charts. Its state is in the URL. It creates elements from text only, never from
// markup, so that hostile names stay text. All tabs of a browser share one event
// stream; when the tab that holds it is closed, another one resumes it, and a refused
// stream is retried.
//
// All routes are GET and change nothing. /content and /image read a followed resource
// from its server if its content is not known; at most 4 at a time. /api/history and
// /api/activity read the log; at most 2 at a time. Old versions of texts are those that
// the log keeps.
//
// uPlot (MIT) draws the charts: it is vendored in assets/uplot, the only library of the
// page.
package dashboard

import (
	"context"
	"embed"
	"io/fs"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/webhook"
)

//go:embed assets
var files embed.FS

// Options configure a dashboard. Snapshot is required; the other functions may be nil,
// and what they provide is not shown then.
type Options struct {
	Version  string
	Snapshot func() *status.Snapshot
	// Servers are all servers, also those that other processes follow; nil: those of
	// Snapshot.
	Servers func() []status.Summary
	// Cluster describes the processes that share servers, if several may; nil: none do.
	Cluster func() (status.Cluster, bool)
	// Last returns the epoch and the number of the last event that clients of the feeds
	// can have received.
	Last func() (epoch string, seq uint64)
	// Storing returns why events cannot be stored, nil if they can; nil: they always can. See
	// [journal.Log.Err].
	Storing func() error
	// Clients counts the clients of the feeds.
	Clients func() int
	// Read returns the content of a resource, which may be a copy if it has the digest.
	Read func(ctx context.Context, server, uri string, digest catalog.Digest) (cache.Resource, error)
	// Select reads the log, for history and charts; see [journal.Log.Select].
	Select func(context.Context, journal.Selection) iter.Seq2[journal.Entry, error]
	// Stored returns the stored states of the resources of a server that another process
	// follows; nil: there is no such server. See [journal.Log.States].
	Stored func(ctx context.Context, server string) (journal.States, error)
	// Contents has old versions of texts; nil: there are none.
	Contents journal.Contents
	// Log returns the newest log lines about a server, oldest first.
	Log func(server string) []serverlog.Line
	// Webhooks are the endpoints that events are sent to, as far as the client that made the
	// request may know of them.
	Webhooks func(*http.Request) []webhook.EndpointStatus
	// Deliveries say which process on a cluster sends to webhooks; nil: this one does.
	Deliveries func() []webhook.Deliverer
	// Login says that people log in, so that the page has a button to log out.
	Login bool
}

// Dashboard answers the routes of the page.
type Dashboard struct {
	opts    Options
	started time.Time
	reads   chan struct{} // a counting semaphore over reads from servers
	scans   chan struct{} // a counting semaphore over reads of the log

	mu            sync.Mutex
	activities    map[string]*activity // by server id; "": all servers together
	activityOrder []string             // the keys of activities, the least recently used first
}

// New makes a dashboard.
func New(opts Options) *Dashboard {
	if opts.Servers == nil {
		opts.Servers = func() (servers []status.Summary) {
			snap := opts.Snapshot()
			for i := range snap.Servers {
				servers = append(servers, status.Summarize(&snap.Servers[i]))
			}
			return servers
		}
	}
	return &Dashboard{
		opts: opts, started: time.Now(),
		reads: make(chan struct{}, maxReads), scans: make(chan struct{}, maxScans), activities: make(map[string]*activity),
	}
}

// Routes returns the handlers by pattern (see [http.ServeMux]).
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
		"GET /api/servers/{id}":           http.HandlerFunc(d.server),
		"GET /api/history":                http.HandlerFunc(d.history),
		"GET /api/activity":               http.HandlerFunc(d.activity),
		"GET /api/servers/{id}/log":       http.HandlerFunc(d.log),
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
