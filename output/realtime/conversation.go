package realtime

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// conversation puts messages into one conversation, over one connection after
// another: begin and run are called for each. Offers and what the endpoint says come from any
// goroutine and never wait.
type conversation struct {
	name  string
	opts  DeliveryOptions
	keeps bool // the progress
	// wake tells run that something below changed. Capacity 1: it looks at all of
	// it; sent to by anybody, never closed.
	wake chan struct{}

	mu       sync.Mutex // guards the rest; never held across I/O or a hook
	queue    *queue
	flight   *flight // the message that is being delivered
	replies  replies
	finish   bool          // nothing more will be offered: end when all is delivered
	ended    chan struct{} // closed with that
	outcomes []outcome
	progress progress
	stats    Stats // what the queue does not count
}

// flight is a message on its way.
type flight struct {
	*pending
	frame []byte
	sends int       // over this connection
	until time.Time // for the acknowledgement; zero: to be sent
}

// outcome is for the hooks, which run calls.
type outcome struct {
	receipt *Receipt
	failure *Failure
}

// line is a connection as run needs it.
type line struct {
	send func(context.Context, []byte) error
	// ready reports whether an acknowledgement would have been seen by now; an error
	// ends the connection.
	ready func(context.Context) (bool, error)
}

// errFinished ends a run after which there is nothing left to do.
var errFinished = errors.New("all is delivered")

func newConversation(name string, o DeliveryOptions) *conversation {
	o = o.withDefaults()
	return &conversation{name: name, opts: o, wake: make(chan struct{}, 1), ended: make(chan struct{}), queue: newQueue(o.Queue)}
}

func (c *conversation) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// offer takes an event; of those that are no update it notes the id.
func (c *conversation) offer(e *event.Event) {
	m, err := NewMessage(e, c.opts.Message)
	if err != nil {
		c.pass(e.ID)
		return
	}
	c.take(m)
}

func (c *conversation) take(m Message) {
	c.mu.Lock()
	taken := !c.progress.has(m.EventID) && c.queue.offer(m, time.Now())
	if !taken {
		c.queue.last = m.EventID
	}
	c.mu.Unlock()
	if taken {
		c.signal()
	}
}

func (c *conversation) pass(id string) {
	if id == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.last = id
}

func (c *conversation) end() {
	c.mu.Lock()
	if !c.finish {
		c.finish, c.queue.hasten = true, true
		close(c.ended)
	}
	c.mu.Unlock()
	c.signal()
}

// done reports whether nothing is left to do, over this connection or another.
func (c *conversation) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finish && len(c.queue.waiting) == 0 && c.flight == nil && !c.replies.wanted
}

// run delivers over one connection until ctx ends (its cause is the error), the
// connection fails, or nothing is left to do (errFinished). begin comes before it.
func (c *conversation) run(ctx context.Context, l line) error {
	defer c.tell()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.tell()
		frame, late, wait := c.step(time.Now())
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case late:
			ready, err := l.ready(ctx)
			if err != nil {
				return err
			}
			c.repeat(ready, time.Now())
			continue
		case frame != nil:
			if err := l.send(ctx, frame); err != nil {
				return err
			}
			c.sent(time.Now())
			continue
		case wait < 0:
			return errFinished
		}
		var due <-chan time.Time
		if wait > 0 {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-c.wake:
		case <-due:
		case <-ctx.Done():
		}
	}
}

// begin forgets what went on over the last connection, before anything is heard
// over the next. A message without an acknowledgement is sent again, or the newer
// one of its resource instead.
func (c *conversation) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Connections++
	c.replies.reset()
	if c.flight != nil {
		c.flight.until, c.flight.sends = time.Time{}, 0
		c.dropSuperseded()
	}
}

func (c *conversation) dropSuperseded() {
	if c.queue.superseded(c.flight.pending) {
		c.queue.merged++
		c.flight = nil
	}
}

// step decides what to do: send a frame; find out why an acknowledgement is late;
// or wait, for ever if 0. A negative wait is the end.
func (c *conversation) step(now time.Time) (frame []byte, late bool, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flight; f != nil && f.until.IsZero() {
		c.launch(now)
		return f.frame, false, 0
	} else if f != nil {
		if left := f.until.Sub(now); left > 0 {
			return nil, false, left
		}
		return nil, true, 0
	}
	if c.opts.Respond {
		if frame, wait = c.replies.step(now, c.opts.AckTimeout); frame != nil {
			return frame, false, 0
		}
	}
	p, due := c.queue.take(now)
	if p != nil {
		frame, err := encode(p.Create)
		if err != nil { // strings always encode
			c.fail(p, err.Error())
			return nil, false, time.Nanosecond
		}
		c.flight = &flight{pending: p, frame: frame}
		c.launch(now)
		return frame, false, 0
	}
	if due > 0 && (wait == 0 || due < wait) {
		wait = due
	}
	if c.finish && len(c.queue.waiting) == 0 && wait == 0 && !c.replies.busy() {
		return nil, false, -1
	}
	return nil, false, wait
}

// launch notes that the flight's frame is about to be sent: its acknowledgement may
// come before send returns.
func (c *conversation) launch(now time.Time) {
	c.flight.sends++
	c.flight.until = now.Add(time.Hour)
	c.stats.Sent++
}

// sent starts the clock of what was sent last.
func (c *conversation) sent(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flight != nil {
		c.flight.until = now.Add(c.opts.AckTimeout)
	}
}

// repeat goes on after an acknowledgement was late.
func (c *conversation) repeat(ready bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flight
	switch {
	case f == nil: // it came
	case !ready: // nobody could have seen it
		f.until = now.Add(c.opts.AckTimeout)
	case f.sends >= c.opts.Attempts:
		c.flight = nil
		c.fail(f.pending, "it was never acknowledged")
	default:
		f.until = time.Time{}
		c.dropSuperseded()
	}
}

// observe takes note of what the endpoint says. It returns true for what answers
// us alone: an error that names an event of ours.
func (c *conversation) observe(e serverEvent) (ours bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()
	switch e.Type {
	case "conversation.item.added", "conversation.item.done", "conversation.item.created":
		// LocalAI repeats the id of our event instead of giving events ids of its own.
		if f := c.flight; f != nil && (e.Item.ID == f.ItemID || e.EventID == f.Create.EventID) {
			c.delivered(f)
		}
	case "response.created":
		c.replies.created(e.Response.ID)
	case "response.done":
		c.replies.done(e.Response.ID)
	case "error":
		return c.refused(e)
	}
	return false
}

// refused deals with an error: one that names the message in flight is the end of
// that message and of nothing else.
func (c *conversation) refused(e serverEvent) (ours bool) {
	id := e.Error.EventID
	f := c.flight
	switch {
	case f != nil && id == f.Create.EventID && duplicate(e):
		c.delivered(f) // what was sent before did arrive
	case f != nil && id == f.Create.EventID:
		c.flight = nil
		c.fail(f.pending, reason(e))
	case id != "" && id == c.replies.asked:
		c.replies.refused(e.Error.Code == "conversation_already_has_active_response", time.Now())
	}
	return strings.HasPrefix(id, itemEventPrefix) || strings.HasPrefix(id, replyEventPrefix)
}

// duplicate recognises the refusal of an item id that is there already.
func duplicate(e serverEvent) bool {
	text := strings.ToLower(e.Error.Code + " " + e.Error.Message)
	return strings.Contains(text, "already exist") || strings.Contains(text, "already_exist") || strings.Contains(text, "duplicate")
}

func reason(e serverEvent) string {
	parts := []string{}
	for _, s := range []string{e.Error.Type, e.Error.Code, e.Error.Message} {
		if s != "" {
			parts = append(parts, printable.Line(s, 300))
		}
	}
	return strings.Join(parts, ": ")
}

func (c *conversation) delivered(f *flight) {
	now := time.Now()
	from := f.Received
	if from.IsZero() {
		from = f.Timestamp
	}
	c.flight = nil
	c.replies.wanted = c.replies.wanted || c.opts.Respond
	c.stats.Injected++
	c.handled(f.pending)
	c.outcomes = append(c.outcomes, outcome{receipt: &Receipt{
		Message: f.Message, Session: c.name, At: now, Latency: max(0, now.Sub(from))}})
}

func (c *conversation) fail(p *pending, why string) {
	c.stats.Failed++
	c.handled(p)
	c.outcomes = append(c.outcomes, outcome{failure: &Failure{Message: p.Message, Session: c.name, Reason: why}})
}

// handled notes that a message need not be delivered any more.
func (c *conversation) handled(p *pending) {
	if !c.keeps {
		return
	}
	c.progress.add(p.EventID)
	if len(c.progress.done) > maxDone {
		c.progress.upTo(c.cursor())
	}
}

// cursor is the id up to which nothing is left to do.
func (c *conversation) cursor() string {
	if c.flight != nil {
		return c.queue.cursor(c.flight.pending)
	}
	return c.queue.cursor(nil)
}

// tell calls the hooks.
func (c *conversation) tell() {
	c.mu.Lock()
	outcomes := c.outcomes
	c.outcomes = nil
	c.mu.Unlock()
	for _, o := range outcomes {
		if o.receipt != nil {
			c.opts.Injected(*o.receipt)
		} else {
			c.opts.Failed(*o.failure)
		}
	}
}

func (c *conversation) snapshot() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Merged, s.Stale, s.Dropped = c.queue.merged, c.queue.stale, c.queue.dropped
	s.Waiting = len(c.queue.waiting)
	if c.flight != nil {
		s.Waiting++
	}
	return s
}
