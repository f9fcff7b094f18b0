package commands

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/feed"
	"github.com/mcptrack/mcptrack/output/metrics"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/web"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// served is an engine with a log of events, and what serves the log.
type served struct {
	logger *slog.Logger
	log    journal.Log
	engine *engine.Engine
	lines  func(server string) []serverlog.Line // what was logged about a server
	hooks  *webhook.Hooks                       // nil with --follow
}

// passing are the options of a log of events that end with the process, as in a demo.
func passing(content int64) journal.MemoryOptions {
	return journal.MemoryOptions{Keep: 16 << 10, KeepBytes: 32 << 20, KeepContent: content}
}

// openFeed opens the log that the options name, or for a demo one in memory.
func openFeed(ctx context.Context, env *Env, logger *slog.Logger, opts serveOptions, desired engine.Desired, t tracker.Options) (*served, error) {
	f := &served{logger: logger}
	if opts.demo && opts.dir == "" && opts.nats == "" {
		f.log = journal.NewMemory(passing(opts.keep.content))
	} else {
		var err error
		if f.log, err = opts.journalFlags.open(ctx, env, logger, opts.keep); err != nil {
			return nil, err
		}
	}
	var err error
	f.engine, err = engine.New(ctx, desired, f.log, engine.Options{
		Tracker: t, Shared: opts.nats != "" && !opts.follow, Replica: opts.follow, Logger: logger,
		Applied: func(cfg *config.Config) {
			if f.hooks != nil {
				f.hooks.Apply(cfg.Webhooks)
			}
		},
	})
	if err == nil && !opts.follow {
		f.hooks = webhook.NewHooks(webhook.HookOptions{
			Log: f.log, Reader: mcpevents.NewReader(f.log, mcpevents.Scope{}), Sender: webhook.NewSender(nil), Follow: true, Logger: logger,
		})
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *served) close() {
	if err := f.log.Close(); err != nil {
		f.logger.Warn("cannot store the last events", "err", err)
	}
}

// routes adds everything that is served and returns the parts that it needs to run.
func (f *served) routes(s *web.Server, version string, maxClients int) []engine.Part {
	t := f.engine.Tracker()
	var hub *feed.Hub
	var hooks func(*http.Request) []webhook.EndpointStatus
	var deliveries func() []webhook.Deliverer
	var delivered func() map[webhook.Source]webhook.Stats
	if f.hooks != nil {
		hooks = func(*http.Request) []webhook.EndpointStatus { return f.hooks.Endpoints() }
		deliveries = f.hooks.Deliverers
		delivered = func() map[webhook.Source]webhook.Stats {
			return map[webhook.Source]webhook.Stats{webhook.FromConfig: f.hooks.Stats()}
		}
	}
	counts := metrics.New(metrics.Options{
		Version: version, Snapshot: t.Snapshot, Journal: f.log.Stats, Reloads: f.engine.Reloads, Cluster: f.engine.Cluster, Webhooks: delivered, Deliveries: deliveries,
		Clients: func() metrics.Clients {
			st := hub.Stats()
			return metrics.Clients{Connected: st.Clients, Served: st.Accepted, Slow: st.Closed["slow"] + st.Closed["overrun"], Refused: st.Refused, Gaps: st.Gaps}
		},
	})
	hub = feed.New(feed.Options{Log: f.log, MaxClients: maxClients, Logger: f.logger, Wrote: func(_ int, received time.Time) {
		if !received.IsZero() {
			counts.Delivered(time.Since(received))
		}
	}})
	page := dashboard.New(dashboard.Options{Version: version, Snapshot: t.Snapshot, Servers: f.engine.Servers, Cluster: f.engine.Cluster, Read: func(ctx context.Context, server, uri string, digest catalog.Digest) (cache.Resource, error) {
		return t.Client(server).CurrentResource(ctx, uri, digest)
	},
		Last: hub.Last, Storing: f.log.Err, Clients: func() int { return hub.Stats().Clients }, Select: f.log.Select, Contents: f.log.Contents(), Stored: f.log.States,
		Log: f.lines, Webhooks: hooks, Deliveries: deliveries, Login: slices.Contains(s.Routes(), "/login")})
	for pattern, h := range page.Routes() {
		s.Handle(pattern, h)
	}
	s.Handle("/events", hub.Events())
	s.Handle("/api/mcp/resource-events", hub.Feed())
	s.Handle("GET /metrics", counts.Handler())
	s.OnShutdown(hub.Shutdown)
	parts := []engine.Part{engine.Reader(hub.Run)}
	if f.hooks != nil {
		parts = append(parts, engine.Reader(f.hooks.Run))
	}
	return parts
}
