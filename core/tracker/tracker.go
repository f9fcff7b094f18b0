package tracker

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/bus"
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
	// Liveness is how often a silent server is asked whether it lives; 15 s.
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
	// up to MaxText bytes each (256 KiB) and MaxTexts in all (64 MiB).
	Texts             bool
	MaxText, MaxTexts int64
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

	// desired holds the newest config that Run has not seen yet. Capacity 1:
	// Apply replaces what is in it, Run takes it; never closed.
	desired chan *config.Config
	// looked is closed by Run when it has taken in the first config.
	looked chan struct{}

	mu      sync.Mutex // guards workers; Run alone writes
	workers map[string]*worker
}

// New returns a tracker that tracks nothing yet. It starts no goroutine.
func New(opts Options) *Tracker {
	opts = opts.withDefaults()
	return &Tracker{
		opts:    opts,
		store:   newStore(bus.New()),
		texts:   &textBudget{each: opts.MaxText, all: opts.MaxTexts},
		desired: make(chan *config.Config, 1),
		looked:  make(chan struct{}),
		workers: map[string]*worker{},
	}
}

// Apply sets the desired set of servers. It never blocks and never fails; when it
// is called again before the last config was looked at, the latest wins. Servers
// whose entry did not change keep their process and session. A server that is to
// be known but not connected is one that is not enabled.
func (t *Tracker) Apply(cfg *config.Config) {
	for {
		select {
		case t.desired <- cfg:
			return
		default:
		}
		select {
		case <-t.desired:
		default:
		}
	}
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
// have been called.
func (t *Tracker) Settled(ctx context.Context) (*Snapshot, error) {
	select {
	case <-t.looked:
	case <-ctx.Done():
		return t.Snapshot(), context.Cause(ctx)
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
