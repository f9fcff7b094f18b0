package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Options configures a hub. Log is required; other zero fields have their defaults.
type Options struct {
	Log journal.Log
	// MaxClients limits the number of open streams. The default is 2,000.
	MaxClients int
	// Ring and RingBytes limit the number and total size of the newest events kept in memory. The
	// defaults are 16,384 and 64 MiB.
	Ring, RingBytes int
	// Heartbeat is the interval at which comments are sent, or checkpoints if filters have hidden
	// events. The default is 15 s.
	Heartbeat time.Duration
	// Tick is the minimum time between two wake-ups of a client. The default is 5 ms.
	Tick time.Duration
	// WriteTimeout limits one write to a client. The default is 5 s.
	WriteTimeout time.Duration
	// Wrote, if not nil, is called after every write of live events to a client. It receives the
	// number of events, and the time at which the server's notification of the oldest one arrived
	// (zero if unknown), for latency metrics. Calls may be concurrent.
	Wrote func(events int, received time.Time)
	// Logger receives one record when reading the log fails and one when it succeeds again; if nil,
	// they are discarded.
	Logger *slog.Logger
}

// Hub streams one log to many clients.
type Hub struct {
	opts    Options
	readers chan struct{} // a semaphore, never closed: a client holds it while it reads history

	dirty chan struct{} // capacity 1, never closed: new frames for showAll
	first chan struct{} // closed once the ring exists
	halt  chan struct{} // closed to stop followAll, which first reads what is stored
	done  chan struct{} // closed when followAll has stopped
	last  chan struct{} // closed when no more frames are shown; streams must end

	counts  counts
	failing bool // an outage of the log was logged; used only by followAll

	mu       sync.Mutex
	ring     *ring
	clients  map[*streamClient]struct{}
	closed   map[string]uint64 // see Stats
	closing  bool              // new clients are refused
	handlers sync.WaitGroup
	stop     sync.Once
	stopErr  error
}

// maxReaders limits the clients that read history at the same time.
const maxReaders = 32

// New returns a hub that sends nothing until Run is called.
func New(opts Options) *Hub {
	opts.MaxClients = cmp.Or(opts.MaxClients, 2000)
	opts.Ring, opts.RingBytes = cmp.Or(opts.Ring, 1<<14), cmp.Or(opts.RingBytes, 64<<20)
	opts.Heartbeat, opts.Tick = cmp.Or(opts.Heartbeat, 15*time.Second), cmp.Or(opts.Tick, 5*time.Millisecond)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, 5*time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Hub{
		opts: opts, readers: make(chan struct{}, maxReaders), dirty: make(chan struct{}, 1),
		first: make(chan struct{}), halt: make(chan struct{}), done: make(chan struct{}), last: make(chan struct{}),
		clients: map[*streamClient]struct{}{}, closed: map[string]uint64{},
	}
}

var (
	errHalted   = errors.New("the feed is shutting down")
	errStarting = errors.New("the event log is not open yet")
)

// Run follows the log until ctx ends, the log is closed, or Shutdown is called. It then ends all
// streams as Shutdown does, and returns Shutdown's error. Run must be called exactly once.
func (h *Hub) Run(ctx context.Context) error {
	// Continue to follow the log after ctx has ended, until Shutdown has caught up.
	all, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(errHalted)
	follow, halt := context.WithCancelCause(all)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-h.halt:
		case <-all.Done():
		}
		halt(errHalted)
	})
	wg.Go(func() { h.showAll(follow) })
	wg.Go(func() {
		defer close(h.done)
		h.followAll(follow)
		if r := h.current(); r != nil {
			_ = h.push(r, h.opts.Log.Read(all, r.followed()))
		}
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

// followAll follows the log until ctx ends or the log is closed. It starts a new ring if the log
// was replaced, and retries after any other error; clients lose no events during an outage.
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
			h.opts.Logger.Warn("the event log cannot be read; retrying", "err", err)
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

// follow adds log entries to the ring until an error occurs. It creates the ring if there is none.
func (h *Hub) follow(ctx context.Context) error {
	r := h.current()
	if r == nil {
		b, err := h.opts.Log.Bounds(ctx)
		if err != nil {
			return err
		}
		r = newRing(b.Epoch, b.Last+1, h.opts.Ring, h.opts.RingBytes)
		h.mu.Lock()
		h.ring = r
		select {
		case <-h.first:
		default:
			close(h.first)
		}
		h.mu.Unlock()
	}
	if err := h.push(r, h.opts.Log.Follow(ctx, r.followed())); err != nil {
		return err
	}
	return ctx.Err()
}

// push adds entries to the ring until an error occurs.
func (h *Hub) push(r *ring, entries iter.Seq2[journal.Entry, error]) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		if e.Again { // clients receive the gap
			continue
		}
		if !ofEpoch(e.ID, r.epoch) {
			return journal.ErrEpoch
		}
		if h.failing {
			h.opts.Logger.Info("the event log can be read again")
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
	return nil
}

// drop discards the ring of a replaced log. Its clients reconnect with IDs from the old log, and
// receive a gap.
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

// showAll makes new frames visible to clients: immediately after a quiet period, and otherwise at
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

// startTimeout limits how long a request waits for the hub to start.
const startTimeout = 2 * time.Second

// Feed serves the VibeChat feed, GET /api/mcp/resource-events: updates and errors of resources.
func (h *Hub) Feed() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, true) })
}

// Events serves all events, GET /events, with the filters ?type=, ?server= (globs, comma-separated
// or repeated) and ?uri= (a glob, repeatable). It rejects unknown parameters. With
// ?described, events have a description in words, as the dashboard shows them ([event.Described]), and are
// messages without a name.
func (h *Hub) Events() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, false) })
}

func (h *Hub) serve(w http.ResponseWriter, r *http.Request, feed bool) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, "Method not allowed", "only GET")
		return
	}
	q, err := parseQuery(r, feed)
	if err != nil {
		refuse(w, http.StatusBadRequest, "Bad query", err.Error())
		return
	}
	if err := h.Opened(r.Context()); err != nil {
		refuse(w, http.StatusInternalServerError, "Resource tracker is unavailable", printable.Reason(err, 500))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := &streamClient{hub: h, w: w, ctx: ctx, cancel: cancel, feed: feed, query: q,
		out: eventstream.NewWriter(w, func() time.Time { return time.Now().Add(h.opts.WriteTimeout) })}
	c.headers()
	if !h.admit(c) {
		h.counts.refused.Add(1)
		// Use a random delay, so that clients do not all reconnect simultaneously.
		_ = c.write(eventstream.AppendRetry(nil, 5*time.Second+rand.N(5*time.Second)))
		return
	}
	var why reason
	defer func() { h.leave(c, why) }()
	why = c.run()
}

// Opened waits until the hub has opened the log. It returns an error if that takes more than 2 s, or if
// ctx ends.
func (h *Hub) Opened(ctx context.Context) error {
	select {
	case <-h.first:
		return nil
	default:
	}
	wait := time.NewTimer(startTimeout)
	defer wait.Stop()
	select {
	case <-h.first:
		return nil
	case <-h.last: // admit refuses the client
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-wait.C:
		return errStarting
	}
}

// admit registers a client and assigns it the current ring. It returns false if the hub is full or
// shutting down.
func (h *Hub) admit(c *streamClient) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing || h.ring == nil || len(h.clients) >= h.opts.MaxClients {
		return false
	}
	h.handlers.Add(1)
	h.clients[c] = struct{}{}
	h.counts.accepted.Add(1)
	c.ring = h.ring
	return true
}

func (h *Hub) leave(c *streamClient, why reason) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, c)
	h.closed[string(why)]++
	h.handlers.Done()
}

// refuse answers a request with an error response instead of a stream.
func refuse(w http.ResponseWriter, status int, what, details string) {
	body, _ := json.Marshal(struct { // encoding two strings cannot fail
		Error   string `json:"error"`
		Details string `json:"details"`
	}{what, printable.Line(details, 512)})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func ofEpoch(id, epoch string) bool {
	return len(id) > len(epoch) && id[:len(epoch)] == epoch && id[len(epoch)] == '-'
}

// Time limits for the two phases of a shutdown: the ring catches up with the log, and clients
// receive the remaining events.
const (
	catchUp = 400 * time.Millisecond
	takeAll = 500 * time.Millisecond
)

// Shutdown refuses new clients, sends connected clients all events that are in the log and a
// tracker_stopped frame, and ends their streams, within 1 s or until ctx ends; slower clients are
// disconnected. It also stops Run. Shutdown returns when all handlers have returned. All calls
// return the same error. It is meant for [web.Server.OnShutdown].
func (h *Hub) Shutdown(ctx context.Context) error {
	h.stop.Do(func() { h.stopErr = h.shutdown(ctx) })
	return h.stopErr
}

func (h *Hub) shutdown(ctx context.Context) error {
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	early, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	err := h.opts.Log.Flush(early)
	if errors.Is(err, journal.ErrClosed) {
		err = nil
	}
	close(h.halt)
	select {
	case <-h.done:
	case <-early.Done():
		err = cmp.Or(err, early.Err())
	}
	if err != nil {
		err = fmt.Errorf("streams were closed before the last events were sent, because the event log is slow: %w", err)
	}
	if r := h.current(); r != nil {
		r.show()
	}
	close(h.last)
	cut := time.AfterFunc(takeAll, h.cut)
	defer cut.Stop()
	defer context.AfterFunc(ctx, h.cut)()
	h.handlers.Wait()
	return err
}

// cut ends the streams of all clients, including streams that are blocked in a write.
func (h *Hub) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		c.cut()
	}
}

// reason is why a stream ended.
type reason string

const (
	gone     reason = "gone"     // client disconnected
	slow     reason = "slow"     // client did not accept a write in time
	overrun  reason = "overrun"  // client fell behind the oldest frame in the ring
	ended    reason = "stopped"  // hub was shut down
	replaced reason = "replaced" // log was replaced by a new one
	failed   reason = "failed"   // reading the log failed
)

// counts contains the counters behind Stats.
type counts struct {
	accepted, refused, sent, replayed, gaps atomic.Uint64
}

// Stats contains counts since New.
type Stats struct {
	Clients  int    // currently open streams
	Accepted uint64 // streams opened
	Refused  uint64 // requests refused: at MaxClients or during shutdown
	Sent     uint64 // live events sent, counted per client
	Replayed uint64 // events sent from history
	Gaps     uint64 // clients told that requested events had expired
	// Closed counts the ended streams by reason: "gone" (the client disconnected), "slow" (the
	// client did not accept a write in time), "overrun" (the client fell behind the ring),
	// "stopped" (the hub shut down), "replaced" (the log was replaced by a new one) and "failed"
	// (reading the log failed).
	Closed map[string]uint64
}

// Stats returns the current counts.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{
		Clients: len(h.clients), Accepted: h.counts.accepted.Load(), Refused: h.counts.refused.Load(),
		Sent: h.counts.sent.Load(), Replayed: h.counts.replayed.Load(), Gaps: h.counts.gaps.Load(),
		Closed: maps.Clone(h.closed),
	}
}

// Last returns the ID of the newest event that is visible to clients or was stored before the log was
// opened, so that a caller can take a snapshot and then stream the events after that ID. epoch is empty
// until the log is open.
func (h *Hub) Last() (epoch string, seq uint64) {
	r := h.current()
	if r == nil {
		return "", 0
	}
	next, _ := r.position()
	return r.epoch, next - 1
}
