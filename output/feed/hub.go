package feed

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
)

// Options configure a hub. A zero field means its default; Log is required.
type Options struct {
	// Log is what the hub sends.
	Log journal.Log
	// MaxClients is how many streams may be open; 2,000.
	MaxClients int
	// Ring and RingBytes bound the newest events that are kept in memory; 16,384
	// and 64 MiB.
	Ring, RingBytes int
	// Heartbeat is the time between two heartbeats of a stream: comments, and checkpoints if
	// filters hid events; 15 s.
	Heartbeat time.Duration
	// Tick is the minimum time between two wake-ups of a client; 5 ms.
	Tick time.Duration
	// WriteTimeout is how long a client may take for one write; 5 s.
	WriteTimeout time.Duration
	// Unavailable returns why there is nothing to stream, nil if there is. New clients get
	// the text of its error with status 500. The function may be nil: always available.
	Unavailable func() error
	// Wrote is called after every write of live events to a client, from many goroutines,
	// with the number of events and the time at which the notification that caused the
	// oldest of them was received (zero if unknown), so that callers can measure latency.
	// May be nil.
	Wrote func(events int, received time.Time)
	// Logger gets one line when the source fails, and one when it works again; nil
	// discards.
	Logger *slog.Logger
}

// Hub sends one log to many clients.
type Hub struct {
	opts Options
	// readers and pages are semaphores: a client sends while it reads history, and while
	// it holds a large page, and receives when done. Never closed.
	readers, pages chan struct{}

	dirty chan struct{} // capacity 1: the ring has frames that clients do not see yet; sent to by followAll, never closed
	first chan struct{} // closed once there is a ring
	halt  chan struct{} // closed when followAll has to end
	done  chan struct{} // closed when followAll has ended
	last  chan struct{} // closed when streams have to end: no more frames are shown

	counts  counts
	failing bool // an outage of the source was logged; used by followAll only

	mu       sync.Mutex
	ring     *ring
	clients  map[*client]struct{}
	closing  bool // no new clients
	handlers sync.WaitGroup
	stop     sync.Once
	stopErr  error
}

// How many clients read history at the same time, and how many hold a large page of it.
const (
	maxReaders = 32
	maxPages   = 32
)

// New returns a hub that sends nothing before Run.
func New(opts Options) *Hub {
	for _, d := range []struct {
		value *int
		or    int
	}{{&opts.MaxClients, 2000}, {&opts.Ring, 1 << 14}, {&opts.RingBytes, 64 << 20}} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{{&opts.Heartbeat, 15 * time.Second}, {&opts.Tick, 5 * time.Millisecond}, {&opts.WriteTimeout, 5 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Hub{
		opts: opts, readers: make(chan struct{}, maxReaders), pages: make(chan struct{}, maxPages), dirty: make(chan struct{}, 1),
		first: make(chan struct{}), halt: make(chan struct{}), done: make(chan struct{}), last: make(chan struct{}),
		clients: map[*client]struct{}{},
	}
}

var (
	errHalted   = errors.New("the feed is shutting down")
	errStarting = errors.New("the event log is not open yet")
)

// Run follows the log until ctx ends, the log is closed, or Shutdown is called. It
// then ends all streams, as Shutdown does, and returns nil. It must be called once.
func (h *Hub) Run(ctx context.Context) error {
	// The log is followed until Shutdown has caught up with it, which is after ctx has ended.
	follow, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(errHalted)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-h.halt:
			cancel(errHalted)
		case <-follow.Done():
		}
	})
	wg.Go(func() { h.showAll(follow) })
	wg.Go(func() {
		defer close(h.done)
		h.followAll(follow)
	})
	select {
	case <-ctx.Done():
	case <-h.done:
	}
	err := h.Shutdown(context.WithoutCancel(ctx))
	cancel(errHalted)
	wg.Wait()
	return err
}

// followAll follows the log, and begins a new ring when the log was replaced, until ctx ends or
// the log is closed. It retries after any other error: clients lose nothing by waiting.
func (h *Hub) followAll(ctx context.Context) {
	retry := backoff.New(50*time.Millisecond, 2*time.Second)
	for {
		began := time.Now()
		err := h.follow(ctx)
		if ctx.Err() != nil || errors.Is(err, journal.ErrClosed) {
			return
		}
		if errors.Is(err, journal.ErrEpoch) {
			h.drop()
		} else if !h.failing {
			h.opts.Logger.Warn("the event log cannot be read; trying again", "err", err)
			h.failing = true
		}
		if time.Since(began) > time.Minute {
			retry.Reset()
		}
		if !backoff.Sleep(ctx, retry.Next()) {
			return
		}
	}
}

// follow adds the entries of the log to the ring, which it creates if there is none, until an
// error.
func (h *Hub) follow(ctx context.Context) error {
	r := h.current()
	if r == nil {
		b, err := h.opts.Log.Bounds(ctx)
		if err != nil {
			return err
		}
		// Clients that reconnect after a restart of this process are served from the ring.
		from := b.First
		if kept := uint64(h.opts.Ring / 2); b.Last+1 > b.First+kept {
			from = b.Last + 1 - kept
		}
		r = newRing(b.Epoch, from, b.Last+1, h.opts.Ring, h.opts.RingBytes)
		h.mu.Lock()
		h.ring = r
		select {
		case <-h.first:
		default:
			close(h.first)
		}
		h.mu.Unlock()
	}
	for e, err := range h.opts.Log.Follow(ctx, r.followed()) {
		if err != nil {
			return err
		}
		if e.Again { // clients get the gap
			continue
		}
		if !ofEpoch(e.ID, r.epoch) {
			return journal.ErrEpoch
		}
		if h.failing {
			h.opts.Logger.Info("the event log is read again")
			h.failing = false
		}
		f := newFrame(&e, r.epoch)
		f.received = e.Received()
		r.push(f)
		select {
		case h.dirty <- struct{}{}:
		default:
		}
	}
	return ctx.Err()
}

// drop ends the ring of a log that was replaced. Its clients reconnect with ids of the
// old log and get a gap.
func (h *Hub) drop() {
	h.mu.Lock()
	r := h.ring
	h.ring = nil
	h.mu.Unlock()
	if r != nil {
		r.end()
	}
}

func (h *Hub) current() *ring {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ring
}

// showAll makes new frames of the ring visible to clients: at once after a silence, then at
// most once per Options.Tick.
func (h *Hub) showAll(ctx context.Context) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-h.dirty:
		case <-ctx.Done():
			return
		}
		if r := h.current(); r != nil {
			r.show()
		}
		tick.Reset(h.opts.Tick)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
