package daemon

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/mcptrack/mcptrack/core/cache"
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

// Limits of the feed of one view, which few clients read.
const (
	feedClients = 64
	feedEvents  = 1024
	feedBytes   = 4 << 20
)

// serveEvents returns the function that serves the events and the state of a view's servers. lines
// returns the log lines for a server.
func serveEvents(e *engine.Engine, version string, lines func(server string) []serverlog.Line, log *slog.Logger) func(*daemon.View) (http.Handler, func(context.Context) error) {
	t := e.Tracker()
	return func(v *daemon.View) (http.Handler, func(context.Context) error) {
		names := func() map[string]string {
			names := map[string]string{}
			for _, id := range v.Tracked() {
				names[id] = daemon.ExportedID(id)
			}
			return names
		}
		tracked := func(shown string) string {
			for id, name := range names() {
				if name == shown {
					return id
				}
			}
			return ""
		}
		served := api.New(api.Options{
			Feed: feed.Options{Log: scoped.New(e.Log(), names), MaxClients: feedClients, Ring: feedEvents, RingBytes: feedBytes, Logger: log},
			Dashboard: dashboard.Options{Version: version,
				Snapshot: func() *status.Snapshot { return t.Snapshot().Renamed(names()) },
				Read: func(ctx context.Context, server, uri string, digest catalog.Digest) (cache.Resource, error) {
					return t.Client(tracked(server)).CurrentResource(ctx, uri, digest)
				},
				Log: func(server string) []serverlog.Line { return lines(tracked(server)) },
			},
			Demand: func(server string) (release func()) { return t.Demand(tracked(server)) },
		})
		return served.Handler(), served.Run
	}
}
