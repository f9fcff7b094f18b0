package commands

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/demo"
	"github.com/mcptrack/mcptrack/core/events"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/publish"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/metrics"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/sse"
	"github.com/mcptrack/mcptrack/output/web"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// feed is a durable log of events and the publisher that writes it.
type feed struct {
	log       *slog.Logger
	selection selection
	journal   *journal.Journal
	publisher *publish.Publisher
	lines     func(server string) []serverlog.Line // what was logged about a server
	hooks     *webhook.Hooks
	temp      *demo.TempDir // of a demo's events, removed by close; nil: they are kept
}

// openFeed opens the log that the options name, or for a demo one that is removed by
// close.
func openFeed(ctx context.Context, env *Env, log *slog.Logger, opts serveOptions, t tracker.Options) (*feed, error) {
	f := &feed{log: log, selection: selection{all: opts.allServers}}
	var err error
	if opts.demo && opts.dir == "" && opts.nats == "" {
		if f.temp, err = demo.NewTempDir(""); err != nil {
			return nil, err
		}
		opts.dir = filepath.Join(f.temp.Dir, "events")
	}
	if opts.dir == "" && opts.nats == "" {
		opts.dir = env.stateDir()
	}
	if f.journal, err = opts.journalFlags.open(ctx, env, log, opts.keep); err != nil {
		f.removeTemp()
		return nil, err
	}
	f.publisher, err = publish.New(ctx, publish.Options{Journal: f.journal, Tracker: t, Shared: opts.nats != "" && !opts.follow, Replica: opts.follow, Logger: log})
	if err == nil && !opts.follow {
		f.hooks, err = webhook.NewHooks(webhook.HookOptions{
			Reader: events.NewReader(events.FromJournal(f.journal), events.Scope{}), Sender: webhook.NewSender(nil), Follow: true,
			File: filepath.Join(opts.dir, hooksFile), Cluster: opts.shared(f.journal), Logger: log,
		})
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// hooksFile is the file with the watermarks of the webhooks of the config, in the data
// directory.
const hooksFile = "config-webhooks.json"

func (f *feed) close() {
	if err := f.journal.Close(); err != nil {
		f.log.Warn("cannot store the last events", "err", err)
	}
	f.removeTemp()
}

func (f *feed) removeTemp() {
	if f.temp != nil {
		_ = f.temp.Remove() // if that fails, the next demo removes it
	}
}

// apply follows the selected servers of a config.
func (f *feed) apply(cfg *config.Config) {
	if f.hooks != nil {
		f.hooks.Apply(cfg.Webhooks)
	}
	f.publisher.Apply(f.selection.of(cfg))
}

// routes adds everything that is served and returns the tasks that it needs to run.
func (f *feed) routes(s *web.Server, version string, maxClients int) []publish.Task {
	t := f.publisher.Tracker()
	var hub *sse.Hub
	var hooks func(*http.Request) []webhook.Endpoint
	var deliveries func() []webhook.Delivery
	var delivered func() map[webhook.Source]webhook.Stats
	if f.hooks != nil {
		hooks = func(*http.Request) []webhook.Endpoint { return f.hooks.Endpoints() }
		deliveries = f.hooks.Deliveries
		delivered = func() map[webhook.Source]webhook.Stats {
			return map[webhook.Source]webhook.Stats{webhook.FromConfig: f.hooks.Stats()}
		}
	}
	counts := metrics.New(metrics.Options{
		Version: version, Snapshot: t.Snapshot, Journal: f.journal.Stats, Reloads: f.publisher.Reloads, Cluster: f.publisher.Cluster, Webhooks: delivered, Deliveries: deliveries,
		Clients: func() metrics.Clients {
			st := hub.Stats()
			return metrics.Clients{Connected: st.Clients, Served: st.Accepted, Slow: st.Closed["slow"] + st.Closed["overrun"], Refused: st.Refused, Gaps: st.Gaps}
		},
	})
	hub = sse.New(sse.Options{Source: sse.FromJournal(f.journal), MaxClients: maxClients, Logger: f.log, Wrote: func(_ int, received time.Time) {
		if !received.IsZero() {
			counts.Delivered(time.Since(received))
		}
	}})
	page := dashboard.New(dashboard.Options{Version: version, Snapshot: t.Snapshot, Servers: f.publisher.Servers, Cluster: f.publisher.Cluster, Client: t.Client,
		Last: hub.Last, Clients: func() int { return hub.Stats().Clients }, Select: f.journal.Select, Contents: f.journal.Contents, Stored: f.journal.States,
		Log: f.lines, Webhooks: hooks, Deliveries: deliveries, Login: slices.Contains(s.Routes(), "/login")})
	for pattern, h := range page.Routes() {
		s.Handle(pattern, h)
	}
	s.Handle("/events", hub.Events())
	s.Handle("/api/mcp/resource-events", hub.Feed())
	s.Handle("GET /metrics", counts.Handler())
	s.OnShutdown(hub.Shutdown)
	tasks := []publish.Task{hub.Run}
	if f.hooks != nil {
		tasks = append(tasks, f.hooks.Run)
	}
	return tasks
}
