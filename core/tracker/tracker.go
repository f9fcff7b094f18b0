package tracker

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/bus"
	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// Options are how a tracker works. The zero value is usable; a zero field means
// its default.
type Options struct {
	// Dial connects to a server; nil: [session.Dial].
	Dial session.DialFunc
	// Session is passed to Dial; its Era and Logger are set by the tracker.
	Session session.Options
	// Window is the time within which changes of one resource are merged; 2 s.
	Window time.Duration
	// Patience is how long an event waits for its resource to be read; 250 ms.
	Patience time.Duration
	// Resync is about how often everything is compared in full; 5 min, ± 20 %.
	Resync time.Duration
	// Liveness is how often a server is asked whether it lives; 15 s.
	Liveness time.Duration
	// Backoff is the first wait after a failure; 500 ms. It doubles up to MaxBackoff.
	Backoff time.Duration
	// MaxBackoff is the longest wait between two attempts; 30 s.
	MaxBackoff time.Duration
	// Drain bounds what is still read and told when tracking ends; 3 s.
	Drain time.Duration
	// Reads is how many reads one server may have to answer at once; 8.
	Reads int
	// Texts keeps the text of followed resources, for content and diffs in events:
	// up to MaxText bytes each (256 KiB) and MaxTexts in all (64 MiB). MaxText also
	// bounds what events of clients carry.
	Texts             bool
	MaxText, MaxTexts int64
	// Baseline tells what was known of a resource before this tracker was made: the
	// digest that was told last, zero if none was. A resource whose content differs
	// when it is first read gives a resync event. It is called by the workers, many
	// at a time, and returns at once; nil knows nothing.
	Baseline func(server, uri string) catalog.Digest
	// AllLists follows all lists of every server, whatever its entry says; which
	// resources are followed is up to the entry. For a gateway.
	AllLists bool
	// IgnoreListChanges are lists whose changes servers are not asked to announce and
	// that are not polled either (templates go with resources). They are still listed
	// on connecting and by the routine comparison. Empty: none is ignored.
	IgnoreListChanges []catalog.Kind
	// CacheBytes bounds what is kept of what clients read, of all servers together;
	// [cache.DefaultMaxBytes].
	CacheBytes int64
	// Lag is how many events a subscriber may be behind; [bus.DefaultCapacity].
	Lag int
	// Logger gets one line per state of a server at info, and what a user should
	// look into at warn; nil discards.
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

// A Tracker keeps one session to every server of a desired set and publishes
// what changes. Its methods may be called from anywhere.
type Tracker struct {
	opts  Options
	store *store
	texts *textBudget
	kept  *cache.Store // what clients read

	// applied wakes Run to take the newest config. Capacity 1, because one wake is
	// enough for any number of configs: Apply sends without blocking; never closed.
	applied chan struct{}

	mu      sync.Mutex         // guards all below
	workers map[string]*worker // Run alone writes
	newest  *config.Config     // what was applied last
	given   uint64             // how many configs were applied
	taken   uint64             // how many of them Run has looked at, or was spared
	looked  chan struct{}      // closed and replaced by Run whenever taken has risen
}

// New returns a tracker that tracks nothing yet. It starts no goroutine.
func New(opts Options) *Tracker {
	opts = opts.withDefaults()
	return &Tracker{
		opts:    opts,
		store:   newStore(bus.New()),
		texts:   &textBudget{each: opts.MaxText, all: opts.MaxTexts},
		kept:    cache.NewStore(opts.CacheBytes),
		applied: make(chan struct{}, 1),
		looked:  make(chan struct{}),
		workers: map[string]*worker{},
	}
}

// Apply sets the desired set of servers. It never blocks and never fails; when it
// is called again before the last config was looked at, the latest wins. Servers
// whose entry did not change keep their process and session. A server that is to
// be known but not connected is one that is not enabled.
func (t *Tracker) Apply(cfg *config.Config) {
	t.mu.Lock()
	t.newest = cfg
	t.given++
	t.mu.Unlock()
	select {
	case t.applied <- struct{}{}:
	default:
	}
}

// take is what Run has to make true now, and the number of the config.
func (t *Tracker) take() (*config.Config, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.newest, t.given
}

// took tells that Run has begun to make that config true.
func (t *Tracker) took(n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken = n
	close(t.looked)
	t.looked = make(chan struct{})
}

// awaitTaken waits until Run has looked at what is applied now.
func (t *Tracker) awaitTaken(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for want := max(t.given, 1); t.taken < want; {
		looked := t.looked
		t.mu.Unlock()
		var err error
		select {
		case <-looked:
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

// Snapshot returns what is known now.
func (t *Tracker) Snapshot() *Snapshot { return t.store.snapshot() }

// Subscribe returns what is known now and the stream of all events after it,
// without a gap between the two. See [bus.Bus.Subscribe] for how it ends.
func (t *Tracker) Subscribe(ctx context.Context) (*Snapshot, *bus.Subscription) {
	return t.store.subscribe(ctx, t.opts.Lag)
}

// Publish puts an event that is about no server into the order: for those who
// feed the tracker, such as a config reloader.
func (t *Tracker) Publish(e event.Event) { t.store.publish(e) }

// Settled waits until every server of the last applied config was tried once: it
// is Ready, Unsupported, NeedsAuth or Disabled, or has failed. It returns what is
// known then, or the cause of ctx with what is known by then. Apply and Run must
// have been called. A server whose entry changed may still show what came of its
// old one.
func (t *Tracker) Settled(ctx context.Context) (*Snapshot, error) {
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

func settled(s *Snapshot) bool {
	for _, st := range s.Servers {
		if st.Attempt == 0 && (st.State == event.Pending || st.State == event.Connecting) {
			return false
		}
	}
	return true
}
