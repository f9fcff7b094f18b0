package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/journal/scoped"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/api"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/feed"
	"github.com/mcptrack/mcptrack/output/serverlog"
)

// Limits of the feed of one group, which few clients read.
const (
	feedClients = 64
	feedEvents  = 1024
	feedBytes   = 4 << 20
)

// serveEvents returns the function that serves the events, the state and the recorded calls of a group's
// servers. lines returns the log lines for a server.
func serveEvents(e *engine.Engine, record calls.Store, version string, lines func(server string) []serverlog.Line, log *slog.Logger) func(*daemon.Group) (http.Handler, func(context.Context) error) {
	t := e.Tracker()
	return func(g *daemon.Group) (http.Handler, func(context.Context) error) {
		served := api.New(api.Options{
			Feed: feed.Options{Log: scoped.New(e.Log(), g.Names, g.Lock()), MaxClients: feedClients, Ring: feedEvents, RingBytes: feedBytes, Logger: log},
			Dashboard: dashboard.Options{Version: version,
				Snapshot: func() *status.Snapshot { return t.Snapshot().Renamed(g.Names()) },
				Read: func(ctx context.Context, server, uri string, digest catalog.Digest) (cache.Resource, error) {
					defer g.Demand(server)()
					return t.Client(g.TrackedID(server)).CurrentResource(ctx, uri, digest)
				},
				Calls: func(ctx context.Context, q calls.Query) ([]calls.Call, error) {
					list, err := record.Read(ctx, q)
					return slices.DeleteFunc(list, func(c calls.Call) bool { return g.TrackedID(c.ServerID) == "" }), err
				},
				Log: func(server string) []serverlog.Line { return lines(g.TrackedID(server)) },
			},
			Demand: g.Demand,
		})
		return served.Handler(), served.Run
	}
}
