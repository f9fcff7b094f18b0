// Package api serves the HTTP API of a log of events: the feeds, the state of the servers and their
// history. serve-sse serves it over TCP, behind output/web, together with the dashboard's page; the
// daemon serves it over the connections of its clients, to each with the servers of the client's
// config ([API.Handler]).
//
// The routes are those of output/feed and output/dashboard, and GET /api/offers: what servers offer
// in full, for the list command.
//
// # Ownership
//
// [API.Run] owns the goroutines of the feeds. The HTTP server owns the handlers; the end of Run ends
// the streams.
package api

import (
	"context"
	"io"
	"maps"
	"net/http"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/feed"
	"github.com/mcptrack/mcptrack/output/remote"
)

// Options configures an API.
type Options struct {
	// Feed configures the feeds. Its Log is required.
	Feed feed.Options
	// Dashboard configures the other routes. Its Snapshot is required. New sets what it reads from
	// the log and the feeds: Last, Clients and Events.
	Dashboard dashboard.Options
	// Demand wakes a server that is connected on demand and has not been connected yet, when its lists
	// are requested, and keeps it connected until release is called. If it is nil, servers are always
	// connected.
	Demand func(server string) (release func())
}

// API serves one log. Create it with New and call Run.
type API struct {
	opts   Options
	hub    *feed.Hub
	routes map[string]http.Handler
	writes map[string]http.Handler
}

// New creates an API.
func New(opts Options) *API {
	a := &API{opts: opts, hub: feed.New(opts.Feed)}
	page := opts.Dashboard
	page.Last, page.Clients, page.Events = a.hub.Last, func() int { return a.hub.Stats().Clients }, opts.Feed.Log
	d := dashboard.New(page)
	a.routes, a.writes = d.Routes(), d.Writes()
	a.routes["/events"] = a.hub.Events()
	a.routes["/api/mcp/resource-events"] = a.hub.Feed()
	return a
}

// Local returns a client for a log and the servers of this process. Only the state and the history of the
// servers are served: [remote.Client.Follow] reads the log itself. A log without servers has no Snapshot.
func Local(log journal.Log, servers dashboard.Options) remote.Client {
	if servers.Snapshot == nil {
		servers.Snapshot = func() *status.Snapshot { return &status.Snapshot{} }
	}
	return remote.Local(log, New(Options{Feed: feed.Options{Log: log}, Dashboard: servers}).Handler())
}

// Hub returns the hub of the feeds.
func (a *API) Hub() *feed.Hub { return a.hub }

// Run runs the feeds until ctx ends; see [feed.Hub.Run].
func (a *API) Run(ctx context.Context) error { return a.hub.Run(ctx) }

// Routes returns the handlers of the feeds and of the dashboard by pattern; see [http.ServeMux].
func (a *API) Routes() map[string]http.Handler { return maps.Clone(a.routes) }

// Writes returns the handlers of requests that change something; see [dashboard.Dashboard.Writes].
func (a *API) Writes() map[string]http.Handler { return maps.Clone(a.writes) }

// Handler returns the handler for the clients of a daemon. It has no writes: a client may be a model. It has no page, and needs no rules about
// origins and hosts, because browsers cannot reach it. Requests have no body.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range a.routes {
		if pattern != "GET /{$}" && pattern != "GET /assets/" && pattern != "GET /api/status" && pattern != "/events" {
			mux.Handle(pattern, h)
		}
	}
	mux.HandleFunc("GET /api/offers", a.offers)
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		for _, st := range a.named(r) { // watch and top wake what they follow
			if a.opts.Demand != nil {
				defer a.opts.Demand(st.ID)()
			}
		}
		a.routes["/events"].ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /api/status", func(w http.ResponseWriter, r *http.Request) {
		_ = a.hub.Opened(r.Context()) // otherwise the newest event is unknown, and a feed after it would begin with the oldest
		a.routes["GET /api/status"].ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n")
	})
	return http.MaxBytesHandler(mux, 0) // no route reads a body
}
