package tracker

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
	"github.com/mcptrack/mcptrack/core/status"
)

// Options configure a [Tracker]. The zero value is usable; a zero field means its
// default.
type Options struct {
	// Log receives the events; nil: a log of the tracker's own. The tracker closes it when Run
	// returns.
	Log *journal.Memory
	// Record is a durable log. It receives every event, and everything else to remember, in
	// order, at the time of publication. Its methods are called with a lock held, so they must
	// not call the tracker. Nil: nothing is recorded.
	Record journal.Recorder
	// Dial connects to a server; nil: [session.Dial].
	Dial session.DialFunc
	// Session is passed to Dial; the tracker sets its Era and Logger.
	Session session.Options
	// Window is the time within which changes of one resource are merged; 2 s.
	Window time.Duration
	// Patience is how long the event for a change waits for the read of its resource; 250 ms.
	Patience time.Duration
	// Resync is the interval at which everything is listed again; 5 min, ± 20 %. See
	// [config.Tracking] for how often resources are read.
	Resync time.Duration
	// Liveness is the interval between pings; 15 s.
	Liveness time.Duration
	// Backoff is the first wait after a failure; 500 ms. It doubles up to MaxBackoff.
	Backoff time.Duration
	// MaxBackoff is the longest wait before the next attempt to connect, to list after
	// a failure, to subscribe after a gap, or to follow events; 30 s.
	MaxBackoff time.Duration
	// Drain bounds how long Run still reads and publishes changed resources after its context
	// has ended; 3 s.
	Drain time.Duration
	// Reads bounds the reads in flight per server; 8.
	Reads int
	// Texts keeps the text of tracked resources, for contents and diffs in events: up to
	// MaxText bytes each (256 KiB) and MaxTexts in all (64 MiB). MaxText also bounds the
	// contents and results in the events of clients.
	Texts             bool
	MaxText, MaxTexts int64
	// Baseline returns the digest that an earlier tracker published for a resource,
	// [catalog.Gone] or [catalog.Unread] if it published that, zero if it published nothing. If
	// the first read finds another content, an event with cause resync is published. Workers
	// call it concurrently, and it must return immediately; nil: nothing was published.
	Baseline func(server, uri string) catalog.Digest
	// BaselineList returns the keys and digests of a list that an earlier tracker published; ok
	// is false if none was. If the list differs when it is first loaded, it is published as
	// changed, with cause resync. It is called like Baseline.
	BaselineList func(server string, k catalog.Kind) (list catalog.List, ok bool)
	// EventCursors returns where to resume the subscriptions to events of a server (MCP
	// Events): the last [status.ServerStatus.EventCursors] of an earlier tracker; nil: from now
	// on. It is called like Baseline.
	EventCursors func(server string) map[string]string
	// Webhooks receives events from servers that deliver them by webhook; nil: events are not
	// received in this way.
	Webhooks *standardwebhooks.Receiver
	// AllLists tracks all lists of every server, even those that its entry does not select; the
	// entry still decides which resources are tracked. For a gateway.
	AllLists bool
	// IgnoreListChanges are lists that are not polled, and whose changes servers are not asked to
	// announce (templates go with resources). They are still listed after connecting and
	// every Resync. Empty: none is ignored.
	IgnoreListChanges []catalog.Kind
	// Logger receives one record per change of a server's state at level info, and problems
	// that a user should look into at level warn; nil discards them.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Dial == nil {
		o.Dial = session.Dial
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Log == nil {
		o.Log = journal.NewMemory(journal.MemoryOptions{})
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

// A Tracker keeps one session to every server of a desired set and publishes what
// changes. Its methods are safe for concurrent use.
type Tracker struct {
	opts   Options
	store  *store
	texts  *textBudget
	caches *cache.Store // the session caches

	// applied wakes Run to take the newest config. Capacity 1, because one wake is
	// enough for any number of configs: Apply sends without blocking; never closed.
	applied chan struct{}

	mu      sync.Mutex         // guards all below
	workers map[string]*worker // only Run writes
	newest  *config.Config     // the last config applied
	applies uint64             // how many configs were applied
	taken   uint64             // how many of them Run has taken, or skipped
	took    chan struct{}      // Run closes and replaces it whenever taken has increased

	messages func(server, method string, params json.RawMessage) // see OnMessage; set before Run
}

// New returns a tracker that tracks nothing yet. It starts no goroutine.
func New(opts Options) *Tracker {
	opts = opts.withDefaults()
	t := &Tracker{
		opts:    opts,
		store:   &store{log: opts.Log, durable: opts.Record, baseline: opts.Baseline, servers: map[string]*record{}},
		texts:   &textBudget{each: opts.MaxText, all: opts.MaxTexts},
		caches:  cache.NewStore(0),
		applied: make(chan struct{}, 1),
		took:    make(chan struct{}),
		workers: map[string]*worker{},
	}
	t.opts.Dial = t.dial(opts.Dial)
	return t
}

// Apply sets the desired set of servers. It never blocks and never fails. If it is
// called again before Run has taken the last config, the latest wins. Servers whose
// entry did not change keep their process and session. A server that is not enabled is
// known but not connected.
func (t *Tracker) Apply(cfg *config.Config) {
	t.mu.Lock()
	t.newest = cfg
	t.applies++
	t.mu.Unlock()
	select {
	case t.applied <- struct{}{}:
	default:
	}
}

// take returns the config that Run should apply, and its number.
func (t *Tracker) take() (*config.Config, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest, t.applies
}

// markTaken records that Run has begun to apply config number n.
func (t *Tracker) markTaken(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = n
	close(t.took)
	t.took = make(chan struct{})
}

// awaitTaken waits until Run has taken the config that was applied last; if there is none yet,
// the first.
func (t *Tracker) awaitTaken(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for want := max(t.applies, 1); t.taken < want; {
		took := t.took
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

// Causes with which the context of a worker or its session is cancelled.
var (
	errRemoved    = errors.New("removed from the config")
	errSuperseded = errors.New("the config changed")
)

// Run tracks until ctx ends. Then it drains: it reads and publishes resources whose change
// was announced (for at most Options.Drain), unsubscribes, and disconnects, from all servers
// concurrently. When it returns, with the cause of ctx, every stream of events has ended and no
// goroutine or process is left. It may be called once.
func (t *Tracker) Run(ctx context.Context) error {
	defer func() { _ = t.opts.Log.Close() }() // never fails
	defer t.markTaken(math.MaxUint64)         // no config will be taken any more
	var (
		running sync.WaitGroup
		desired = map[string]config.Server{}
		order   []string
		// exits receives the id of every worker that has ended, as the worker's last act; never
		// closed. No capacity is needed, because this loop receives until all have ended.
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
				continue // stopping
			}
			cfg, n := t.take()
			desired, order = wanted(cfg)
			for _, id := range order { // servers are known from now on, whether or not their workers run
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
			}
			if ctx.Err() == nil && again {
				t.announce(desired[id])
				reconcile() // the server may be wanted again
			}
		case <-done:
			done = nil
		}
	}
	running.Wait()
	return context.Cause(ctx)
}

// announce makes a server known as Pending.
func (t *Tracker) announce(srv config.Server) {
	t.store.commit(event.Event{ServerID: srv.ID, Payload: event.ServerState{State: event.Pending}}, func(r *record) {
		r.status.State, r.status.Transport = event.Pending, srv.Transport
	})
}

// wanted returns the servers of a config by id, and their order. It fills in defaults, which
// are missing if the config was not read from a file.
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

// Snapshot returns the current state.
func (t *Tracker) Snapshot() *status.Snapshot { return t.store.snapshot() }

// Subscribe returns the current state and the stream of all events after it, without a gap
// between the two. The stream ends with ctx or after the last event of Run. A consumer that is
// too slow gets a gap event and the current states, see [journal.Memory].
func (t *Tracker) Subscribe(ctx context.Context) (*status.Snapshot, *journal.Subscription) {
	return t.store.subscribe(ctx)
}

// Log returns the log to which the tracker publishes.
func (t *Tracker) Log() *journal.Memory { return t.opts.Log }

// Restart ends the connection to a server and soon makes a new one. What is known of the server
// is kept, and compared with what the new session finds. Restart does nothing if the server is
// not tracked. While the server is being connected, only a failure leads to another attempt soon.
func (t *Tracker) Restart(server string) {
	t.signal(server, func(w *worker) chan<- struct{} { return w.restarts })
}

// Hasten makes the tracker soon connect to a server that is waiting to be reconnected, because
// a request waits for it. The planned attempts stay as they are. If the server itself asked for
// the wait, Hasten does nothing.
func (t *Tracker) Hasten(server string) {
	t.signal(server, func(w *worker) chan<- struct{} { return w.hasten })
}

// Republish records the state of a server. Soon after, in order with its events, it records what
// differs from Baseline and BaselineList, with cause resync: everything is listed and read again,
// now or when the server is connected. It is for a server that was tracked before this process
// was allowed to record events about it.
func (t *Tracker) Republish(server string) {
	t.store.republish(server)
	t.signal(server, func(w *worker) chan<- struct{} { return w.rechecks })
}

// signal sends to a channel of a server's worker. The channel has capacity 1, because one
// request is enough.
func (t *Tracker) signal(server string, to func(*worker) chan<- struct{}) {
	t.mu.Lock()
	w := t.workers[server]
	t.mu.Unlock()
	if w == nil {
		return
	}
	select {
	case to(w) <- struct{}{}:
	default:
	}
}

// Publish publishes an event that is not about a server, in order with the others. It is for
// the source of the configs, such as a config reloader.
func (t *Tracker) Publish(e event.Event) { t.store.publish(e) }

// Settled waits until every server of the last applied config was tried once: it is Ready,
// Unsupported, NeedsAuth, Unconfigured, Unapproved or Disabled, or has failed. It returns the
// state at that time; if ctx ends first, the state so far and the cause of ctx. Apply and Run
// must have been called. If a server's entry changed, its status may still describe the old entry.
func (t *Tracker) Settled(ctx context.Context) (*status.Snapshot, error) {
	if err := t.awaitTaken(ctx); err != nil {
		return t.Snapshot(), err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	snap, sub := t.Subscribe(ctx)
	for {
		if settled(snap) {
			return snap, nil
		}
		if batch := sub.Next(); batch == nil {
			return t.Snapshot(), sub.Err()
		}
		snap = t.Snapshot()
	}
}

func settled(s *status.Snapshot) bool {
	return !slices.ContainsFunc(s.Servers, func(st status.ServerStatus) bool {
		return st.Attempt == 0 && (st.State == event.Pending || st.State == event.Connecting)
	})
}

// Gone waits until a server that is not in the last applied config has been disconnected and
// everything about it has been published.
func (t *Tracker) Gone(ctx context.Context, server string) error {
	if err := t.awaitTaken(ctx); err != nil {
		return err
	}
	if !backoff.Poll(ctx, 20*time.Millisecond, func() bool { return !t.store.knows(server) }) {
		return context.Cause(ctx)
	}
	return nil
}
