package realtime

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracing"
)

// conversation delivers messages to one conversation over consecutive connections. begin and then
// run are called for each connection. offer and observe never block, and are safe for concurrent
// use.
type conversation struct {
	name      string
	opts      DeliveryOptions
	dialect   *dialect
	resumable bool // whether handled messages are recorded in progress
	// wake tells run, and Session.rest, that a field below has changed. It has capacity 1 and is never closed.
	wake chan struct{}

	mu       sync.Mutex // guards the fields below; never held during I/O or a hook
	queue    *queue
	muted    bool    // the conversation is not open yet: send nothing
	flight   *flight // item in flight; nil if none
	replies  replies
	imports  toolImports
	fatal    string         // last permanent error that is unrelated to our events; empty if none
	finish   bool           // no more events will be offered: end once everything is delivered
	calls    []func()       // pending calls to DeliveryOptions.Injected and Failed
	progress handledUpdates // used only if resumable
	stats    Stats          // without the counts in queue
}

// connection contains the functions that conversation.run uses to access a connection.
type connection struct {
	send func(context.Context, []byte) error
	// ready reports whether an acknowledgement, if the endpoint had sent one, would have been
	// received by now. An error ends the connection.
	ready func(context.Context) (bool, error)
}

// errFinished is returned by run when nothing is left to do.
var errFinished = errors.New("everything is delivered")

func newConversation(name string, d *dialect, o DeliveryOptions) *conversation {
	o = o.withDefaults()
	o.Respond = o.Respond && d.responds
	return &conversation{
		name: name, opts: o, dialect: d, wake: make(chan struct{}, 1), queue: newQueue(o.Queue),
	}
}

func (c *conversation) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// offer accepts an event. For types other than resource.updated it only records the ID.
func (c *conversation) offer(e *event.Event) {
	if m, ok := newMessage(e, c.opts.Message); ok {
		c.add(m)
	} else {
		c.pass(e.ID)
	}
}

func (c *conversation) add(m Message) {
	c.mu.Lock()
	if c.progress.covers(&m) {
		c.queue.last = m.EventID
	} else {
		c.queue.offer(m, time.Now())
	}
	c.mu.Unlock()
	c.signal()
}

// pass records that events up to this ID will not be offered.
func (c *conversation) pass(id string) {
	if id == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.last = id
}

// toolsChanged makes the session reimport the tools of e's server if the session uses them. url is
// the server's URL, or "" if unknown.
func (c *conversation) toolsChanged(e *event.Event, url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.imports.changed(e, url)
	c.signal()
}

func (c *conversation) end() {
	c.mu.Lock()
	c.finish, c.queue.hasten = true, true
	c.mu.Unlock()
	c.signal()
}

// done reports whether everything is delivered and no more events will be offered, so that no
// further connection is needed.
func (c *conversation) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finish && len(c.queue.waiting) == 0 && c.flight == nil && !c.replies.wanted
}

// begin resets the state of the previous connection. It must be called before anything is read from
// a new connection. An unacknowledged item will be sent again, unless newer updates of all its
// resources are pending.
func (c *conversation) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Connections++
	c.fatal, c.muted = "", c.dialect.opening != ""
	c.replies.reset()
	if f := c.flight; f != nil {
		f.sends, f.after = 0, time.Time{}
		c.again(f)
	}
}

// again makes run send an item again, unless newer updates of all its resources are pending.
func (c *conversation) again(f *flight) {
	f.until = time.Time{}
	if c.queue.supersede(f.batch) {
		c.flight = nil
	}
}

// run delivers messages over one connection until ctx ends (it returns the cause), the connection
// fails, or nothing is left to do (errFinished). begin must be called first.
func (c *conversation) run(ctx context.Context, l connection) error {
	defer c.callHooks()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.callHooks()
		frame, late, wait := c.step(time.Now())
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case late:
			ready, err := l.ready(ctx)
			if err != nil {
				return err
			}
			c.ackOverdue(ready, time.Now())
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

// step returns run's next action. If frame is not nil, run must send it; if late is set, run must
// check why an acknowledgement is overdue; otherwise run must wait. A wait of 0 means until
// something changes, and a negative wait means that nothing is left to do.
func (c *conversation) step(now time.Time) (frame []byte, late bool, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.muted {
		return nil, false, 0
	}
	if f := c.flight; f != nil {
		switch {
		case now.Before(f.after):
			return nil, false, f.after.Sub(now)
		case f.until.IsZero():
			return c.launch(f, now), false, 0
		case now.Before(f.until):
			return nil, false, f.until.Sub(now)
		}
		return nil, true, 0
	}
	earliest := func(due time.Duration) {
		if due > 0 && (wait == 0 || due < wait) {
			wait = due
		}
	}
	if c.opts.Respond {
		if frame, wait = c.replies.step(now, c.opts.AckTimeout); frame != nil {
			return frame, false, 0
		}
	}
	frame, patience, failed := c.imports.step(now, len(c.replies.active) == 0 && c.replies.blocked(now) == 0)
	for _, e := range failed {
		c.queue.offer(newToolsMessage(e, c.opts.Message.Scope), now)
	}
	if frame != nil {
		return frame, false, 0
	}
	earliest(patience)
	batch, due := c.queue.take(now, c.dialect.limits)
	if len(batch) > 0 {
		c.flight = newFlight(batch, c.dialect, c.opts.Message.Role)
		return c.launch(c.flight, now), false, 0
	}
	earliest(due)
	if c.finish && len(c.queue.waiting) == 0 && wait == 0 && !c.replies.busy() {
		return nil, false, -1
	}
	return nil, false, wait
}

// launch returns the frame of the item that run sends next. It sets a distant deadline, because the
// acknowledgement may arrive before the send returns.
func (c *conversation) launch(f *flight, now time.Time) []byte {
	f.sends++
	f.until = now.Add(time.Hour)
	return f.frame
}

// sent starts the acknowledgement timeout of the item that was just sent.
func (c *conversation) sent(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flight != nil && !c.flight.until.IsZero() {
		c.flight.until = now
		if !c.dialect.unconfirmed {
			c.flight.until = now.Add(c.opts.AckTimeout)
		}
	}
}

// ackOverdue handles an overdue acknowledgement. ready means that an acknowledgement would have
// been received if the endpoint had sent one.
func (c *conversation) ackOverdue(ready bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flight
	switch {
	case f == nil: // the acknowledgement has arrived in the meantime
	case ready && c.dialect.unconfirmed:
		c.delivered(f, now)
	case !ready:
		f.until = now.Add(c.opts.AckTimeout)
	case f.sends >= c.opts.Attempts:
		c.rejected(f, "the endpoint never acknowledged the message")
	default:
		c.again(f)
	}
}

// abandon reports the messages of an item as not delivered.
func (c *conversation) abandon(f *flight, why string) {
	c.flight = nil
	for _, p := range f.batch {
		c.stats.Failed++
		c.handled(p)
		c.calls = append(c.calls, func() { c.opts.Failed(Failure{Message: p.Message, Session: c.name, Reason: why}) })
	}
}

// rejected handles an item that the endpoint will never accept. If the item contained several
// messages, each is sent again in a separate item, so that one invalid message does not affect the
// others.
func (c *conversation) rejected(f *flight, why string) {
	if len(f.batch) == 1 {
		c.abandon(f, why)
		return
	}
	c.flight = nil
	c.queue.restore(f.batch)
}

// delivered records that an item's messages are in the conversation.
func (c *conversation) delivered(f *flight, now time.Time) {
	c.flight = nil
	c.replies.wanted = c.replies.wanted || c.opts.Respond
	receipts := make([]Receipt, len(f.batch))
	for i, p := range f.batch {
		c.stats.Injected++
		c.handled(p)
		receipts[i] = Receipt{Message: p.Message, Session: c.name, At: now, Merged: p.merged, Latency: max(0, now.Sub(p.since))}
		receipts[i].ItemID = f.id
		_, span := c.opts.Tracer.Delivery(context.Background(), "inject", p.happened(), tracing.Event{
			Type: string(event.TypeResourceUpdated), Server: p.ServerID, URI: p.ResourceURI, Trace: p.Trace})
		span.End()
	}
	c.calls = append(c.calls, func() { c.opts.Injected(receipts) })
}

// handled records that a message, and all older messages for its resource, need no further
// delivery.
func (c *conversation) handled(p *pending) {
	if !c.resumable {
		return
	}
	c.progress.add(&p.Message)
	if len(c.progress.newest) > maxNewest {
		c.progress.upTo(c.cursor())
	}
}

// callHooks makes the pending hook calls. c.mu must not be held.
func (c *conversation) callHooks() {
	c.mu.Lock()
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// cursor returns the ID of the event up to which every update has been handled.
func (c *conversation) cursor() string {
	if c.flight != nil {
		return c.queue.cursor(c.flight.batch)
	}
	return c.queue.cursor(nil)
}

func (c *conversation) snapshot() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Merged, s.Dropped, s.Waiting = c.queue.merged, c.queue.dropped, len(c.queue.waiting)
	if c.flight != nil {
		s.Waiting += len(c.flight.batch)
	}
	return s
}

// observe processes a server event. It reports whether the event answers one of our client events,
// such as an error with its ID; a proxy hides such events from the application.
func (c *conversation) observe(e serverEvent) (ours bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()
	now := time.Now()
	f := c.flight
	is := func(id string) bool { return f != nil && id == eventIDOf(f.id) }
	c.imports.observe(e)
	switch e.Type {
	case c.dialect.opening:
		c.muted = false
	case "session.thinking.appended":
		if is(e.ClientEventID) {
			c.delivered(f, now)
		}
		return strings.HasPrefix(e.ClientEventID, itemEventPrefix)
	case "conversation.item.added", "conversation.item.done", "conversation.item.created":
		c.replies.item(e, now)
		// LocalAI repeats the ID of our event instead of assigning its own event IDs.
		if is(e.EventID) || is(eventIDOf(e.Item.ID)) {
			c.delivered(f, now)
		}
	case "response.output_item.done":
		c.replies.item(e, now)
	case "response.created":
		c.replies.created(e.Response.ID)
	case "response.done":
		c.replies.done(e.Response.ID)
	case "input_audio_buffer.speech_started":
		c.replies.speech(true, now)
	case "input_audio_buffer.speech_stopped", "input_audio_buffer.committed", "input_audio_buffer.cleared":
		c.replies.speech(false, now)
	case "error":
		c.errorEvent(e, is(e.Error.EventID), now)
		id := e.Error.EventID
		return strings.HasPrefix(id, itemEventPrefix) || strings.HasPrefix(id, replyEventPrefix) || strings.HasPrefix(id, updateEventPrefix)
	}
	return false
}

// errorEvent handles an error. about means that it is about the item in flight; it then affects only that item.
func (c *conversation) errorEvent(e serverEvent, about bool, now time.Time) {
	f, id := c.flight, e.Error.EventID
	switch {
	case about && e.duplicate(): // an earlier attempt succeeded
		c.delivered(f, now)
	case about && !temporary(e.kind()):
		c.rejected(f, e.reason())
	case about && f.sends >= c.opts.Attempts:
		c.abandon(f, e.reason())
	case about:
		f.until, f.after = time.Time{}, now.Add(f.retry.Next())
	case id != "" && id == c.replies.asked:
		c.replies.refused(e.Error.Code == "conversation_already_has_active_response", now)
	case id == "" && permanent(e.kind()):
		c.fatal = e.reason() // reported as the reason if the connection ends now
	}
}

// flight is an item whose delivery is in progress.
type flight struct {
	batch []*pending
	id    string // item ID
	frame []byte
	sends int       // number of sends over this connection
	until time.Time // acknowledgement deadline; zero if the item has not been sent
	after time.Time // earliest time to send the item; zero means now
	retry *backoff.Backoff
}

func newFlight(batch []*pending, d *dialect, role Role) *flight {
	f := &flight{batch: batch, id: batch[0].ItemID, retry: backoff.New(time.Second, 30*time.Second)}
	if len(batch) > 1 {
		ids := make([]string, len(batch))
		for i, p := range batch {
			ids[i] = p.ItemID
		}
		f.id = hashID(ids...)
	}
	f.frame, _ = encode(d.create(f.id, role, batch)) // encoding strings cannot fail
	return f
}
