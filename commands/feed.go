package commands

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/bus"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/demo"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/metrics"
	"github.com/mcptrack/mcptrack/output/sse"
	"github.com/mcptrack/mcptrack/output/web"
)

// feed is what serve-sse runs: tracker → journal → clients.
type feed struct {
	log     *slog.Logger
	tracker *tracker.Tracker
	journal *journal.Journal
	hub     *sse.Hub
	share   *sharing // with --nats; nil: all servers are ours
	known   atomic.Pointer[map[journal.Resource]journal.State]
	temp    *demo.Home // of a demo's events, removed at the end; nil: they are kept

	settled            atomic.Bool // every server was tried once
	reloaded, rejected atomic.Uint64
	good               atomic.Bool
}

// open opens the journal: for a demo one that is thrown away.
func (f *feed) open(ctx context.Context, env *Env, opts *serveOptions) (err error) {
	f.good.Store(true)
	if opts.demo && opts.dir == "" && opts.nats == "" {
		if f.temp, err = demo.OpenHome(""); err != nil {
			return err
		}
		opts.dir = filepath.Join(f.temp.Dir, "events")
	}
	if f.journal, err = opts.journalFlags.open(ctx, env, f.log, opts.keep); err != nil {
		f.discard()
	}
	return err
}

func (f *feed) close() {
	if err := f.journal.Close(); err != nil {
		f.log.Warn("some events are not stored", "err", err)
	}
	f.discard()
}

func (f *feed) discard() {
	if f.temp != nil {
		_ = f.temp.Remove() // if it cannot be, the next demo tries
	}
}

// refresh learns what was told last of every resource, by whoever.
func (f *feed) refresh(ctx context.Context) error {
	known, err := f.journal.States(ctx)
	if err == nil {
		f.known.Store(&known)
	}
	return err
}

// baseline is what was told last of a resource.
func (f *feed) baseline(server, uri string) catalog.Digest {
	return (*f.known.Load())[journal.Resource{ServerID: server, URI: uri}].Digest
}

// want follows the servers of a config, or those of them that are ours.
func (f *feed) want(cfg *config.Config) {
	if f.share != nil {
		f.share.want(tracked(cfg))
		return
	}
	f.tracker.Apply(tracked(cfg))
}

// ready says why clients should not come yet.
func (f *feed) ready() error {
	if !f.settled.Load() {
		return errors.New("not every server was tried yet")
	}
	return f.journal.Err()
}

// routes adds all that is served.
func (f *feed) routes(s *web.Server, version string, maxClients int) {
	counts := metrics.New(metrics.Options{
		Version: version, Snapshot: f.tracker.Snapshot, Journal: f.journal.Stats, Clients: f.clients,
		Reloads: func() (reloaded, rejected uint64, good bool) {
			return f.reloaded.Load(), f.rejected.Load(), f.good.Load()
		},
	})
	f.hub = sse.New(sse.Options{Source: sse.FromJournal(f.journal), MaxClients: maxClients, Logger: f.log, Wrote: func(_ int, received time.Time) {
		if !received.IsZero() {
			counts.Delivered(time.Since(received))
		}
	}})
	page := dashboard.New(dashboard.Options{Version: version, Snapshot: f.tracker.Snapshot, Client: f.tracker.Client,
		Last: f.hub.Last, Clients: func() int { return f.hub.Stats().Clients }})
	for pattern, h := range page.Routes() {
		s.Handle(pattern, h)
	}
	s.Handle("/events", f.hub.Events())
	s.Handle("/api/mcp/resource-events", f.hub.Feed())
	s.Handle("GET /metrics", counts.Handler())
	s.OnShutdown(f.hub.Shutdown)
}

func (f *feed) clients() metrics.Clients {
	st := f.hub.Stats()
	return metrics.Clients{Connected: st.Clients, Served: st.Accepted, Slow: st.Closed["slow"] + st.Closed["overrun"], Refused: st.Refused, Gaps: st.Gaps}
}

// run serves until ctx ends. The order of the end: the tracker tells what it owes,
// that is stored, clients get it, and then the server drains.
func (f *feed) run(ctx context.Context, serve func(context.Context) error, beside []func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	var (
		running sync.WaitGroup
		once    sync.Once
		failed  error
	)
	start := func(ctx context.Context, work func(context.Context) error) {
		running.Go(func() {
			if err := work(ctx); err != nil && ctx.Err() == nil {
				once.Do(func() { failed = err })
				cancel(err)
			}
		})
	}
	start(serving, serve)
	start(serving, f.hub.Run)
	if f.share != nil {
		start(serving, f.share.run)
	}
	for _, work := range beside {
		start(ctx, work)
	}
	start(ctx, func(ctx context.Context) error {
		_, err := f.tracker.Settled(ctx)
		f.settled.Store(err == nil)
		return nil
	})
	_, events := f.tracker.Subscribe(context.WithoutCancel(ctx))
	stored := make(chan struct{}) // closed when all that the tracker told was appended
	running.Go(func() {
		defer close(stored)
		f.store(events)
	})
	start(ctx, f.remember)
	_ = f.tracker.Run(ctx)
	<-stored
	stopServing()
	running.Wait()
	return failed
}

// store appends every event to the journal. One that lags so far behind that the
// tracker cut it goes on with the states: the journal tells the last of each.
func (f *feed) store(events *bus.Subscription) {
	for {
		var seq uint64
		for e := range events.Events() {
			seq = e.Seq
			f.append(e)
		}
		if !errors.Is(events.Err(), bus.ErrLagged) {
			return
		}
		var snap *tracker.Snapshot
		snap, events = f.tracker.Subscribe(context.Background())
		for _, e := range missed(snap, seq) {
			f.append(e)
		}
	}
}

func (f *feed) append(e *event.Event) {
	switch e.Type() {
	case event.TypeConfigReloaded:
		f.reloaded.Add(1)
		f.good.Store(true)
	case event.TypeConfigRejected:
		f.rejected.Add(1)
		f.good.Store(false)
	}
	if err := f.journal.Append(e); err != nil {
		f.log.Warn("an event is not stored", "err", err)
	}
}

// rememberEvery is how often digests that no event tells are kept.
const rememberEvery = 2 * time.Second

// remember keeps the digests of what was read without an event, so that a change
// while mcptrack is down is noticed by the next run.
func (f *feed) remember(ctx context.Context) error {
	tick := time.NewTicker(rememberEvery)
	defer tick.Stop()
	kept := map[journal.Resource]journal.State{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := map[journal.Resource]journal.State{}
		for _, srv := range f.tracker.Snapshot().Servers {
			for _, r := range srv.Resources {
				if r.Digest.IsZero() {
					continue
				}
				at := journal.Resource{ServerID: srv.ID, URI: r.URI}
				now[at] = journal.State{Digest: r.Digest, Size: r.Size, MimeType: r.MimeType, When: time.Now()}
				if kept[at].Digest != r.Digest {
					if err := f.journal.Remember(at, now[at]); err != nil {
						return nil // closed: the end is near
					}
				}
			}
		}
		kept = now
	}
}
