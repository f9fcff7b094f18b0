// Package dashboard serves the web page of serve-sse and its JSON API.
//
// The page consists of embedded files and needs no build step. A rail has a tree of servers, what they
// offer by kind, and folders of URIs. The middle shows the newest change, or the selected one, as a diff,
// rendered or raw, and the history of a resource; a tool's page has its schema, versions and calls; a
// server's page has its timeline, log, tools and prompts. The review has
// what differs from the lock, with differences, to approve or reject. It does not move under the mouse,
// nor for a second after a decision, and its buttons do nothing for half a second after it has moved, so that no
// other definition than the one that was read is approved. To approve a suspicious change, the button is held for
// 1.5 s. A decision can be undone for 10 s. A drawer has the feed and the last calls, and the header has totals and a chart that
// filters the feed by time. The page's state is in the URL. The page creates elements only from text,
// never from markup, so hostile names stay text. All tabs of a browser share one event stream. When the
// tab that owns the stream is closed, another tab resumes the stream; a rejected stream is retried.
//
// Requests change nothing, except those of [Dashboard.Writes]: POST /api/lock/approve, /reject and /undo write the
// user's decision about shown changes to the lock file, or undo it; POST /api/webhooks/resend sends events
// again; with Options.Actions, POST
// /api/servers/{id}/call, /prompt and /restart call a tool, get a prompt and connect to a server again. At most 4
// calls run, as long as the page waits for them. A result is shown as text, and a picture in it is drawn only
// after its format and size were checked. /content and /image read
// a followed resource from its server if its content is unknown, at most 4 concurrently. /api/history
// and /api/activity read the log, and /api/lock compares definitions, at most 2 concurrently. Old
// versions of texts, and bodies of messages to hooks, are available as long as the log keeps them.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/webhook"
)

//go:embed assets
var files embed.FS

// Options configures a Dashboard. Snapshot is required. If another function is nil, the page omits
// its data.
type Options struct {
	Version  string
	Snapshot func() *status.Snapshot
	// Servers returns all servers, including servers that other processes follow. If nil, the
	// servers of Snapshot are used.
	Servers func() []status.Summary
	// Cluster describes the processes that share servers. Nil if this process shares no servers.
	Cluster func() (status.Cluster, bool)
	// Last returns the epoch and sequence number of the newest event that the feeds may have sent. Nil if
	// neither feeds nor the history are served.
	Last func() (epoch string, seq uint64)
	// Clients counts the clients of the feeds.
	Clients func() int
	// Read returns the content of a resource. It may return a cached copy with the given digest.
	Read func(ctx context.Context, server, uri string, digest catalog.Digest) (cache.Resource, error)
	// Events is the log that the history is read from.
	Events journal.Log
	// Calls returns calls of tools that clients made; see [calls.Store].
	Calls func(context.Context, calls.Query) ([]calls.Call, error)
	// Log returns the newest log lines that mention a server, oldest first.
	Log func(server string) []serverlog.Line
	// Webhooks returns the webhook endpoints that the requesting client is allowed to see.
	Webhooks func(*http.Request) []webhook.EndpointStatus
	// Resend makes webhooks of the config send events again, with a route in [Dashboard.Writes].
	Resend func(context.Context, webhook.Again) ([]webhook.Resent, error)
	// Hooks returns the state of the incoming webhooks.
	Hooks func(*http.Request) []hook.Status
	// Deliveries reports which process of a cluster delivers webhooks. If nil, this process does.
	Deliveries func() []webhook.Deliverer
	// Running returns what is known about a server that this process follows beside its status.
	Running func(context.Context, *status.ServerStatus) Running
	// Review adds the review of what differs from the lock file, and its decisions to [Dashboard.Writes]. Nil if
	// nothing is compared.
	Review *Review
	// Actions adds what users can do with servers to [Dashboard.Writes]. Nil if they can only look.
	Actions *Actions
	// Logger receives records about decisions; nil discards them.
	Logger *slog.Logger
	// Login adds a logout button to the page, because users log in.
	Login bool
}

// Dashboard serves the page and its JSON API.
type Dashboard struct {
	opts    Options
	events  journal.Log // Options.Events, or an empty log
	started time.Time
	reads   chan struct{} // counting semaphore for reads from servers
	scans   chan struct{} // counting semaphore for reads of the log
	acts    chan struct{} // counting semaphore for calls
	counted activity
	undos   undos
}

// New creates a Dashboard.
func New(opts Options) *Dashboard {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Servers == nil {
		opts.Servers = func() (servers []status.Summary) {
			snap := opts.Snapshot()
			for i := range snap.Servers {
				servers = append(servers, status.Summarize(&snap.Servers[i]))
			}
			return servers
		}
	}
	events := opts.Events
	if events == nil {
		events = journal.NewMemory(journal.MemoryOptions{})
	}
	return &Dashboard{
		opts: opts, events: events, started: time.Now(),
		reads: make(chan struct{}, maxReads), scans: make(chan struct{}, maxScans), acts: make(chan struct{}, maxActions),
		counted: activity{fine: map[int64]uint32{}, all: map[int64]uint32{}},
	}
}

// Writes returns the handlers of the requests that change something, by pattern: the lock file, with Options.Review,
// what webhooks send again, with Options.Resend, and those that use a server, with Options.Actions. The caller must
// make sure that only the user's own pages and programs send them.
func (d *Dashboard) Writes() map[string]http.Handler {
	writes := map[string]http.Handler{}
	maps.Copy(writes, d.actions())
	if d.opts.Review != nil {
		writes["POST /api/lock/approve"], writes["POST /api/lock/reject"] = answers(d.decide(true)), answers(d.decide(false))
		writes["POST /api/lock/undo"] = answers(d.undo)
	}
	if d.opts.Resend != nil {
		writes["POST /api/webhooks/resend"] = answers(d.resend)
	}
	return writes
}

// Routes returns the handlers of the page and of the requests that change nothing, by pattern; see
// [http.ServeMux].
func (d *Dashboard) Routes() map[string]http.Handler {
	assets, err := fs.Sub(files, "assets")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return map[string]http.Handler{
		"GET /{$}":                        page(assets),
		"GET /assets/":                    http.StripPrefix("/assets/", packed(assets)),
		"GET /api/status":                 answers(d.status),
		"GET /api/servers":                answers(d.servers),
		"GET /api/items":                  answers(d.items),
		"GET /api/hooks/{id}/body":        http.HandlerFunc(d.hookBody),
		"GET /api/servers/{id}":           answers(d.server),
		"GET /api/history":                answers(d.scan(d.history)),
		"GET /api/lock":                   answers(d.review),
		"GET /api/activity":               answers(d.scan(d.activity)),
		"GET /api/calls":                  answers(d.calls),
		"GET /api/servers/{id}/events":    answers(d.scan(d.standing)),
		"GET /api/servers/{id}/log":       answers(d.log),
		"GET /api/servers/{id}/resources": answers(d.resources),
		"GET /api/servers/{id}/content":   answers(d.content),
		"GET /api/servers/{id}/image":     http.HandlerFunc(d.image),
	}
}

// packed serves files, compressed with gzip if the client accepts that.
func packed(assets fs.FS) http.Handler {
	plain := http.FileServerFS(assets)
	compressed := sync.OnceValue(func() map[string][]byte { // most dashboards of a daemon never show the page
		small := map[string][]byte{}
		_ = fs.WalkDir(assets, ".", func(name string, e fs.DirEntry, _ error) error { // embedded files can be read
			if !e.IsDir() {
				data, _ := fs.ReadFile(assets, name)
				var b bytes.Buffer
				z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
				_, _ = z.Write(data)
				_ = z.Close()
				small[name] = b.Bytes()
			}
			return nil
		})
		return small
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept-Encoding")
		var data []byte
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			data = compressed()[r.URL.Path]
		}
		if data == nil {
			plain.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(r.URL.Path)))
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(data)
	})
}

func page(assets fs.FS) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, assets, "index.html")
	})
}
