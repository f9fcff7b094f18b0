package tracker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
	"github.com/mcptrack/mcptrack/core/status"
)

// Options configure a [Tracker]. The zero value is usable: a field that is zero has its default
// value.
type Options struct {
	// Log receives every event and every state to be remembered, in order and at the time of
	// publication. Its methods are called while a lock is held, so they must not call the tracker. If it
	// is a [journal.Memory], [Tracker.Subscribe] reads from it, and the tracker closes it when Run
	// returns. It may be nil.
	Log journal.Recorder
	// Published is called with every event at the time of publication, while a lock is held: it must return
	// immediately and not call the tracker. It may be nil.
	Published func(*event.Event)
	// Stored is what earlier trackers published: the digest of each resource, [catalog.Gone] or
	// [catalog.Unread] if that was published instead, and the keys and digests of the lists. What differs
	// when it is first read or loaded is published, with cause resync.
	Stored journal.States
	// Dial connects to a server; nil means [session.Dial].
	Dial session.DialFunc
	// Session is passed to Dial. The tracker sets its Era and Logger fields.
	Session session.Options
	// ClientSide returns the client on whose behalf a session with a server acts; the tracker sets
	// Message. It is called for each session, before it is dialled. If it or its result is nil, a
	// session declares no capabilities of a client, and refuses what its server asks.
	ClientSide func(server string) *session.ClientSide
	// Window is the debounce window: changes to a resource within this time are merged. Default: 2
	// s.
	Window time.Duration
	// Patience is how long the event for a change waits for the read of its resource. Default: 250
	// ms.
	Patience time.Duration
	// Resync is the interval at which all lists are requested again. Default: 5 min, ± 20 %. For
	// how often resources are read, see [config.Tracking].
	Resync time.Duration
	// Liveness is the interval between pings. Default: 15 s.
	Liveness time.Duration
	// Backoff is the delay after the first failure; it doubles with each further failure, up to
	// MaxBackoff. Default: 500 ms.
	Backoff time.Duration
	// MaxBackoff is the longest delay before another attempt to connect, to load a list, to
	// subscribe after a gap, or to subscribe to events. Default: 30 s.
	MaxBackoff time.Duration
	// Drain limits how long Run continues to read and publish changed resources after its context
	// has ended. Default: 3 s.
	Drain time.Duration
	// Reads limits the number of concurrent reads per server. Default: 8.
	Reads int
	// Texts enables storing the text of tracked resources, so that events can include contents and
	// diffs. MaxText limits the size of each text in bytes (default: 256 KiB), and MaxTexts their
	// total size (default: 64 MiB). MaxText also limits the contents and results in events about
	// client requests.
	Texts             bool
	MaxText, MaxTexts int64
	// SkillFile receives the text of each skill file that a client read and that matches the skill's
	// entry, with the digest in that entry. It is called concurrently, and must return immediately. It
	// may be nil.
	SkillFile func(server string, d catalog.Digest, text string)
	// Webhooks receives events from servers that deliver them by webhook. If it is nil, webhook
	// delivery is not used.
	Webhooks *standardwebhooks.Receiver
	// Card requests the server card of a server over HTTP: once for each connection, at most every 10
	// minutes, and about every hour if there is a card. A card that differs from the one that this
	// tracker saw before is published. If it is nil, cards are not followed.
	Card FetchCard
	// AllLists tracks all lists of every server, including lists that the server's entry does not
	// select. The entry still determines which resources are tracked. A gateway sets AllLists.
	AllLists bool
	// OnDemand connects a server only while somebody needs it (see [Tracker.Demand]), and for
	// [config.Server.Idle] after that. Otherwise the server is asleep: Pending, with the reason
	// [event.Asleep] and its last known lists. What has changed in the meantime is published when
	// it wakes.
	OnDemand bool
	// Logger receives one record per change of a server's state at level info, and problems that
	// need the user's attention at level warn. If it is nil, they are discarded.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Dial == nil {
		o.Dial = session.Dial
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Window = cmp.Or(o.Window, 2*time.Second)
	o.Patience = cmp.Or(o.Patience, 250*time.Millisecond)
	o.Resync = cmp.Or(o.Resync, 5*time.Minute)
	o.Liveness = cmp.Or(o.Liveness, 15*time.Second)
	o.Backoff = cmp.Or(o.Backoff, 500*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 30*time.Second)
	o.Drain = cmp.Or(o.Drain, 3*time.Second)
	o.Reads = cmp.Or(o.Reads, 8)
	o.MaxText = cmp.Or(o.MaxText, 256<<10)
	o.MaxTexts = cmp.Or(o.MaxTexts, 64<<20)
	return o
}

// A Tracker maintains one session with each server in the applied config and publishes changes. Its
// methods are safe for concurrent use.
type Tracker struct {
	opts   Options
	store  *store
	texts  *textBudget
	caches *cache.Store // caches of all sessions

	applied wake.Channel // sent by Apply: Run takes the newest config
	demands demands      // used only with Options.OnDemand

	mu       sync.Mutex         // guards the fields below
	workers  map[string]*worker // written only by Run
	newest   *config.Config     // the last config applied
	applies  uint64             // number of configs passed to Apply
	taken    uint64             // number of those that Run has taken or skipped
	took     wake.Change        // of taken, by Run
	messages []*messageHandler  // registered with OnMessage; replaced, never modified
}

// New returns a tracker with no servers. It does not start any goroutines.
func New(opts Options) *Tracker {
	opts = opts.withDefaults()
	t := &Tracker{
		opts:    opts,
		store:   newStore(opts),
		texts:   &textBudget{each: opts.MaxText, all: opts.MaxTexts},
		caches:  cache.NewStore(0),
		applied: wake.New(),
		workers: map[string]*worker{},
	}
	t.opts.Dial, t.opts.Stored = t.dial(opts.Dial), journal.States{} // the store has it
	return t
}

// Apply replaces the set of servers to track. It never blocks and never fails. If it is called
// again before Run has taken the previous config, the latest config wins. Servers whose entry did
// not change keep their process and session. A server that is not enabled is known but not
// connected.
func (t *Tracker) Apply(cfg *config.Config) {
	t.mu.Lock()
	t.newest = cfg
	t.applies++
	t.mu.Unlock()
	t.applied.Send()
}

// take returns the config that Run must apply next, and its number.
func (t *Tracker) take() (*config.Config, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest, t.applies
}

// markTaken records that Run has started to apply config number n.
func (t *Tracker) markTaken(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = n
	t.took.Happened()
}

// awaitTaken waits until Run has taken the most recently applied config. If no config has been
// applied yet, it waits for the first one.
func (t *Tracker) awaitTaken(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for want := max(t.applies, 1); t.taken < want; {
		took := t.took.Next()
		t.mu.Unlock()
		var err error
		select {
		case <-took:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		t.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// Cancellation causes for the contexts of workers and their sessions.
var (
	errRemoved    = errors.New("removed from the config")
	errSuperseded = errors.New("the config changed")
)

// Run tracks the servers until ctx ends. Then, for all servers concurrently, it reads and publishes
// resources whose change was announced (for at most Options.Drain), unsubscribes, and disconnects.
// It returns the cause of ctx. When it returns, every event stream has ended and no goroutine or
// process is left. It may be called only once.
func (t *Tracker) Run(ctx context.Context) error {
	defer func() { _ = t.store.stream.Close() }() // closing a Memory log never fails
	defer t.markTaken(math.MaxUint64)             // wakes callers of awaitTaken: no further config will be taken
	var (
		running sync.WaitGroup
		desired = map[string]config.Server{}
		order   []string
		// exits receives the id of every worker when it has finished; sending the id is the
		// worker's last action. It is never closed, and unbuffered, because the loop below receives
		// until all workers have finished.
		exits = make(chan string)
	)
	start := func(id string) {
		srv := desired[id]
		w := newWorker(t, srv)
		wctx, cancel := context.WithCancelCause(ctx)
		w.cancel = cancel
		t.mu.Lock()
		t.workers[id] = w
		t.mu.Unlock()
		running.Go(func() {
			w.run(wctx)
			cancel(nil)
			exits <- id
		})
	}
	reconcile := func() {
		for id, w := range t.workers {
			if srv, ok := desired[id]; !ok {
				w.remove()
			} else if !w.removing && !w.offered.Equal(srv) {
				w.offer(srv)
			}
		}
		for _, id := range order {
			if _, ok := t.workers[id]; !ok {
				start(id)
			}
		}
	}
	done := ctx.Done()
	for done != nil || len(t.workers) > 0 {
		select {
		case <-t.applied:
			if ctx.Err() != nil {
				continue // Run is shutting down
			}
			cfg, n := t.take()
			desired, order = wanted(cfg)
			for _, id := range order { // make all servers known, whether or not their workers are running
				if _, ok := t.workers[id]; !ok {
					t.announce(desired[id])
				}
			}
			reconcile()
			t.markTaken(n)
		case id := <-exits:
			t.mu.Lock()
			w := t.workers[id]
			delete(t.workers, id)
			t.mu.Unlock()
			_, again := desired[id]
			if w.removing {
				t.store.forget(id)
				t.demands.forget(id)
			}
			if ctx.Err() == nil && again {
				t.announce(desired[id])
				reconcile() // the server may have been added again
			}
		case <-done:
			done = nil
		}
	}
	running.Wait()
	return context.Cause(ctx)
}

func (t *Tracker) announce(srv config.Server) {
	t.store.commit(event.Event{ServerID: srv.ID, Payload: event.ServerState{State: event.Pending}}, func(r *record) {
		r.applied = true
		r.status.State, r.status.Transport = event.Pending, srv.Transport
	})
}

// Knows reports whether a server is part of the tracker's state, because it was applied and not removed.
func (t *Tracker) Knows(server string) bool { return t.store.knows(server) }

// wanted returns the servers of a config by id, and the ids in config order. It fills in the
// defaults, which are missing in configs that were not read from a file.
func wanted(cfg *config.Config) (map[string]config.Server, []string) {
	set := map[string]config.Server{}
	var order []string
	if cfg == nil {
		return set, nil
	}
	for _, srv := range cfg.Servers {
		if srv.PollInterval <= 0 {
			srv.PollInterval = config.DefaultPollInterval
		}
		if srv.SafetyInterval == 0 {
			srv.SafetyInterval = config.DefaultSafetyInterval
		}
		set[srv.ID] = srv
		order = append(order, srv.ID)
	}
	return set, order
}

// Snapshot returns the current state of all servers.
func (t *Tracker) Snapshot() *status.Snapshot { return t.store.snapshot() }

// Subscribe returns the current state and a stream of all later events, with no gap between the
// two. The stream ends when ctx ends, or after the last event of Run. A consumer that is too slow
// receives a gap event followed by the current states; see [journal.Memory].
func (t *Tracker) Subscribe(ctx context.Context) (*status.Snapshot, *journal.Subscription) {
	return t.store.subscribe(ctx)
}

// Restart closes the connection to a server and soon opens a new one. The known state of the server
// is kept and compared with the state found in the new session. Restart does nothing if the server
// is not tracked. If a connection attempt is in progress, Restart only causes an early retry if
// that attempt fails.
func (t *Tracker) Restart(server string) {
	t.signal(server, func(w *worker) wake.Channel { return w.restarts })
}

// RetrySoon makes the tracker retry soon if a server is waiting to be reconnected, because a request
// is waiting for it. It does not change the regular retry schedule. RetrySoon does nothing if the
// server itself requested the delay.
func (t *Tracker) RetrySoon(server string) {
	t.signal(server, func(w *worker) wake.Channel { return w.retrySoon })
}

// TakeOver makes this process the one that stores the events about a server. stored is what the log has
// of the server: what differs is published, with cause resync, once the server has been listed and read
// again. TakeOver calls begin, from which on the log receives the events, while nothing is published.
// begin must not call the tracker.
func (t *Tracker) TakeOver(server string, stored journal.States, begin func()) {
	t.store.takeOver(server, stored, begin)
	t.signal(server, func(w *worker) wake.Channel { return w.rechecks })
}

// Stored returns a list as an earlier tracker or process published it, unless this tracker has replaced
// it since, or the last version of an internal list of package journal.
func (t *Tracker) Stored(server string, k catalog.Kind) (list catalog.List, ok bool) {
	return t.store.stored(server, k)
}

// Remember stores an internal list of package journal in the log, in order with the events.
func (t *Tracker) Remember(server string, k catalog.Kind, list catalog.List) {
	t.store.rememberList(server, k, list)
}

func (t *Tracker) signal(server string, to func(*worker) wake.Channel) {
	t.mu.Lock()
	w := t.workers[server]
	t.mu.Unlock()
	if w == nil {
		return
	}
	to(w).Send()
}

// Publish publishes an event that changes no state, in order with the other events. It is used by the
// source of the configs, such as a config reloader, and by whoever compares servers with a lock file.
func (t *Tracker) Publish(e event.Event) { t.store.publish(e) }

// Settled waits until every server in the last applied config has been tried once, or only the given
// servers: a server is Ready, Unsupported, NeedsAuth, Unconfigured, Unapproved, Disabled or asleep,
// or has failed. It returns the state at that time. If ctx ends first, it returns the current state
// and the cause of ctx. Apply and Run must have been called. If a server's entry changed, its status
// may still describe the old entry.
func (t *Tracker) Settled(ctx context.Context, servers ...string) (*status.Snapshot, error) {
	if err := t.awaitTaken(ctx); err != nil {
		return t.Snapshot(), err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	snap, sub := t.Subscribe(ctx)
	for {
		if t.settled(snap, servers) {
			return snap, nil
		}
		if batch := sub.Next(); batch == nil {
			return t.Snapshot(), sub.Err()
		}
		snap = t.Snapshot()
	}
}

// settled reports whether the given servers, or all if there are none, have been tried once.
func (t *Tracker) settled(s *status.Snapshot, servers []string) bool {
	return !slices.ContainsFunc(s.Servers, func(st status.ServerStatus) bool {
		if len(servers) > 0 && !slices.Contains(servers, st.ID) || st.Attempt > 0 {
			return false
		}
		asleep := st.State == event.Pending && st.Reason == event.Asleep && !t.demands.any(st.ID)
		return (st.State == event.Pending || st.State == event.Connecting) && !asleep
	})
}

// Gone waits until a server that was removed from the config has been disconnected and all its
// events have been published.
func (t *Tracker) Gone(ctx context.Context, server string) error {
	if err := t.awaitTaken(ctx); err != nil {
		return err
	}
	if !backoff.Poll(ctx, 20*time.Millisecond, func() bool { return !t.store.knows(server) }) {
		return context.Cause(ctx)
	}
	return nil
}
