package tracker

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
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
	// Log is where the tracker publishes; nil: one of its own. The tracker closes it when Run
	// returns.
	Log *journal.Memory
	// Record gets every event and everything that is to be remembered, in order, at the time it
	// is published: a durable log. Its methods are called with a lock held, so they must not call
	// the tracker. Nil: nothing is recorded.
	Record journal.Recorder
	// Dial connects to a server; nil: [session.Dial].
	Dial session.DialFunc
	// Session is passed to Dial; its Era and Logger are set by the tracker.
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
	// MaxBackoff is the longest wait between two attempts to connect, to list again after
	// a failure, to subscribe again after a gap, or to follow events; 30 s.
	MaxBackoff time.Duration
	// Drain bounds how long changed resources are still read and published after ctx of Run has
	// ended; 3 s.
	Drain time.Duration
	// Reads bounds the reads in flight per server; 8.
	Reads int
	// Texts keeps the text of tracked resources, for content and diffs in events: up to
	// MaxText bytes each (256 KiB) and MaxTexts in all (64 MiB). MaxText also bounds the
	// contents and results in the events of clients.
	Texts             bool
	MaxText, MaxTexts int64
	// Baseline returns the digest that was published for a resource before this tracker was
	// created, [catalog.Gone] or [catalog.Unread] if that was published, zero if nothing was. If the content of a resource differs from it at the first
	// read, an event with cause resync is published. Workers call it concurrently, and it must
	// return at once; nil: nothing was published.
	Baseline func(server, uri string) catalog.Digest
	// BaselineList returns the keys and digests of a list that was published before this
	// tracker was made; ok is false if none was. A list that differs when it is first
	// loaded is published as changed, with cause resync. It is called like Baseline.
	BaselineList func(server string, k catalog.Kind) (list catalog.List, ok bool)
	// EventCursors returns where to resume the subscriptions to events of a server (MCP
	// Events): the last [status.Server.EventCursors] of an earlier tracker; nil: from now on. It
	// is called like Baseline.
	EventCursors func(server string) map[string]string
	// Webhooks receives events from servers that deliver them by webhook; nil: events are not
	// received in this way.
	Webhooks *standardwebhooks.Receiver
	// AllLists tracks all lists of every server, even those that its entry does not select; the
	// entry still decides which resources are tracked. For a gateway.
	AllLists bool
	// IgnoreListChanges are lists whose changes servers are not asked to announce and
	// that are not polled either (templates go with resources). They are still listed
	// after connecting and every Resync. Empty: none is ignored.
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
	newest  *config.Config     // what was applied last
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
		store:   newStore(opts),
		texts:   &textBudget{each: opts.MaxText, all: opts.MaxTexts},
		caches:  cache.NewStore(0),
		applied: make(chan struct{}, 1),
		took:    make(chan struct{}),
		workers: map[string]*worker{},
	}
	t.opts.Dial = t.dial(opts.Dial)
	return t
}

// Apply sets the desired set of servers. It never blocks and never fails; if it is
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

// awaitTaken waits until Run has taken the config that is applied now.
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

// Snapshot returns the current state.
func (t *Tracker) Snapshot() *status.Snapshot { return t.store.snapshot() }

// Subscribe returns the current state and the stream of all events after it, without a gap
// between the two. The stream ends with ctx or after the last event of Run; a consumer that is too
// slow gets a gap event and the current states, see [journal.Memory].
func (t *Tracker) Subscribe(ctx context.Context) (*status.Snapshot, *journal.Subscription) {
	return t.store.subscribe(ctx)
}

// Log is where the tracker publishes.
func (t *Tracker) Log() *journal.Memory { return t.opts.Log }

// Restart ends the connection to a server and makes a new one soon. What is known of the server
// is kept, and compared with what the new session finds. It does nothing if the server is not
// tracked. While the server is being connected, only a failure leads to another attempt soon.
func (t *Tracker) Restart(server string) {
	t.signal(server, func(w *worker) chan<- struct{} { return w.restarts })
}

// signal sends to a channel of a server's worker, which has capacity 1: one request is enough.
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

// Republish records the state of a server, and soon, in order with its events, what differs from
// Baseline and BaselineList, with cause resync: everything is listed and read again, now or when
// the server is connected. It is for a server that was tracked before this process had the right
// to record events about it.
func (t *Tracker) Republish(server string) {
	t.store.republish(server)
	t.mu.Lock()
	w := t.workers[server]
	t.mu.Unlock()
	if w == nil {
		return
	}
	select {
	case w.rechecks <- struct{}{}:
	default:
	}
}

// Publish publishes an event that is not about a server, in order with the others. It is for
// the source of the configs, such as a config reloader.
func (t *Tracker) Publish(e event.Event) { t.store.publish(e) }

// Settled waits until every server of the last applied config was tried once: it is Ready,
// Unsupported, NeedsAuth, Unconfigured, Unapproved or Disabled, or has failed. It returns the state at that
// time; if ctx ends first, the state so far and the cause of ctx. Apply and Run must have been
// called. If a server's entry changed, its status may still be that of the old entry.
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
	for _, st := range s.Servers {
		if st.Attempt == 0 && (st.State == event.Pending || st.State == event.Connecting) {
			return false
		}
	}
	return true
}

// Gone waits until a server that is not in the last applied config has been disconnected and
// everything about it has been published.
func (t *Tracker) Gone(ctx context.Context, server string) error {
	if err := t.awaitTaken(ctx); err != nil {
		return err
	}
	for t.store.knows(server) {
		if !backoff.Sleep(ctx, 20*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
	return nil
}
