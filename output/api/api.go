// Package api serves the HTTP API of a log of events: the feeds, the state of the servers and their
// history. serve-sse serves it over TCP, behind output/web, together with the dashboard's page; the
// daemon serves it over the connections of its clients, to each with the servers of the client's
// config ([API.ServeConn]).
//
// The routes are those of output/feed and output/dashboard, and GET /api/offers: what servers offer
// in full, for the list command.
//
// # Ownership
//
// [API.Run] owns the goroutines of the feeds. [API.ServeConn] owns its connection and returns when
// the connection and its handlers have ended.
package api

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/feed"
)

// Options configures an API.
type Options struct {
	// Feed configures the feeds. Its Log is required.
	Feed feed.Options
	// Dashboard configures the other routes. Its Snapshot is required. New sets what it reads from
	// the log and the feeds: Last, Clients, Storing, Select, Contents and Stored.
	Dashboard dashboard.Options
	// Demand keeps a server connected until release is called, if it is connected on demand: while a
	// client reads a feed, and while its lists are requested. If it is nil, servers are always
	// connected.
	Demand func(server string) (release func())
}

// API serves one log. Create it with New and call Run.
type API struct {
	opts   Options
	logger *slog.Logger
	hub    *feed.Hub
	routes map[string]http.Handler
}

// New creates an API.
func New(opts Options) *API {
	a := &API{opts: opts, logger: opts.Feed.Logger, hub: feed.New(opts.Feed)}
	if a.logger == nil {
		a.logger = slog.New(slog.DiscardHandler)
	}
	log := opts.Feed.Log
	page := opts.Dashboard
	page.Last, page.Clients, page.Storing = a.hub.Last, func() int { return a.hub.Stats().Clients }, log.Err
	page.Select, page.Contents, page.Stored = log.Select, log.Contents(), log.States
	a.routes = dashboard.New(page).Routes()
	a.routes["/events"] = a.awake(a.hub.Events())
	a.routes["/api/mcp/resource-events"] = a.awake(a.hub.Feed())
	return a
}

// Hub returns the hub of the feeds.
func (a *API) Hub() *feed.Hub { return a.hub }

// Run runs the feeds until ctx ends; see [feed.Hub.Run].
func (a *API) Run(ctx context.Context) error { return a.hub.Run(ctx) }

// Routes returns the handlers of the feeds and of the dashboard by pattern; see [http.ServeMux].
func (a *API) Routes() map[string]http.Handler { return maps.Clone(a.routes) }

// awake keeps all servers connected while a client reads a feed.
func (a *API) awake(feed http.Handler) http.Handler {
	if a.opts.Demand == nil {
		return feed
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, st := range a.opts.Dashboard.Snapshot().Servers {
			defer a.opts.Demand(st.ID)()
		}
		feed.ServeHTTP(w, r)
	})
}

// handler returns the handler for the clients of a daemon. It has no page, and needs no rules about
// origins and hosts, because browsers cannot reach it.
func (a *API) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range a.routes {
		if pattern != "GET /{$}" && pattern != "GET /assets/" {
			mux.Handle(pattern, h)
		}
	}
	mux.HandleFunc("GET /api/offers", a.offers)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n")
	})
	return http.MaxBytesHandler(mux, 0) // no route reads a body
}

// Limits of a connection.
const (
	patience  = 10 * time.Second // until the header of a request has arrived
	idleTime  = 10 * time.Minute // between requests
	maxHeader = 12 << 10         // bytes; net/http adds 4 KiB
)

// ServeConn serves HTTP/1.1 over one connection of a client until the client closes it or ctx ends,
// which interrupts the request in progress. It closes the connection, and returns when no handler
// runs any longer. To end feeds with their last events, end the ctx of Run first.
func (a *API) ServeConn(ctx context.Context, conn net.Conn) {
	l := &oneConn{conn: conn, ended: make(chan struct{})}
	end := sync.OnceFunc(func() { close(l.ended) })
	srv := &http.Server{
		Handler: a.handler(), ReadHeaderTimeout: patience, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(a.logger.Handler(), slog.LevelWarn),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed { // its goroutine has returned from the handler
				end()
			}
		},
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	_ = srv.Serve(l) // the error is that of oneConn, or that the server is closed
	_ = srv.Close()
	if l.taken {
		<-l.ended
		return
	}
	_ = conn.Close()
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn  net.Conn
	taken bool          // used only by Accept, and after http.Server.Serve has returned
	ended chan struct{} // closed when the connection has ended
}

func (l *oneConn) Accept() (net.Conn, error) {
	if l.taken {
		<-l.ended
		return nil, net.ErrClosed
	}
	l.taken = true
	return l.conn, nil
}

// Close does nothing: closing the server closes the connection, which ends Accept.
func (l *oneConn) Close() error { return nil }

func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
