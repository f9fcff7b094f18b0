package realtime

import (
	"context"
	"errors"
	"slices"
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
	resumable bool // whether handled messages are recorded in progress
	// wake tells run that a field below has changed. It has capacity 1 and is never closed.
	wake chan struct{}

	mu       sync.Mutex // guards the fields below; never held during I/O or a hook
	queue    *queue
	dialect  dialect
	muted    bool    // the dialect is still unknown: send nothing
	flight   *flight // item in flight; nil if none
	answer   []byte  // client event to send before anything else; nil if none
	replies  replies
	imports  toolImports
	foreign  recent         // items that other injectors have added
	fatal    string         // last permanent error that is unrelated to our events; empty if none
	finish   bool           // no more events will be offered: end once everything is delivered
	ended    chan struct{}  // closed when finish is set
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

func newConversation(name string, d dialect, o DeliveryOptions) *conversation {
	o = o.withDefaults()
	return &conversation{
		name: name, opts: o, dialect: d, foreign: recent{},
		wake: make(chan struct{}, 1), ended: make(chan struct{}), queue: newQueue(o.Queue),
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
	m, err := newMessage(e, c.opts.Message)
	if err != nil {
		c.pass(e.ID)
		return
	}
	c.add(m)
}

func (c *conversation) add(m Message) {
	c.mu.Lock()
	accepted := !c.progress.covers(&m) && c.queue.offer(m, time.Now())
	if !accepted {
		c.queue.last = m.EventID
	}
	c.mu.Unlock()
	if accepted {
		c.signal()
	}
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
	if c.imports.changed(e, url) {
		c.signal()
	}
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
	c.fatal, c.answer = "", nil
	c.muted = c.muted || c.dialect.api().opens
	c.replies.reset()
	if f := c.flight; f != nil {
		f.until, f.after, f.sends = time.Time{}, time.Time{}, 0
		if c.queue.supersede(f.batch) {
			c.flight = nil
		}
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
	if frame, c.answer = c.answer, nil; frame != nil {
		return frame, false, 0
	}
	if f := c.flight; f != nil && f.until.IsZero() {
		if left := f.after.Sub(now); left > 0 {
			return nil, false, left
		}
		return c.launch(f, now), false, 0
	} else if f != nil {
		if left := f.until.Sub(now); left > 0 {
			return nil, false, left
		}
		return nil, true, 0
	}
	if c.muted {
		return nil, false, 0
	}
	if c.opts.Respond {
		if frame, wait = c.replies.step(now, c.dialect, c.opts.AckTimeout); frame != nil {
			return frame, false, 0
		}
	}
	frame, patience, failed := c.imports.step(now, len(c.replies.active) == 0 && c.replies.blocked(now) == 0)
	for label, e := range failed {
		if e != nil {
			c.queue.offer(newToolsMessage(e, c.opts.Message.Scope), now)
		} else {
			c.fail(Message{ServerID: label}, c.imports.reason())
		}
	}
	if frame != nil {
		return frame, false, 0
	}
	if len(failed) > 0 {
		return nil, false, time.Nanosecond // makes run call the hooks
	}
	if patience > 0 && (wait == 0 || patience < wait) {
		wait = patience
	}
	batch, due := c.queue.take(now, c.dialect.api().limits)
	if len(batch) > 0 {
		f := newFlight(batch, c.dialect, c.opts.Message.Role)
		if c.foreign.has(f.id, now) { // another injector has already added the item
			c.delivered(f, now)
			return nil, false, time.Nanosecond
		}
		c.flight = f
		return c.launch(f, now), false, 0
	}
	if due > 0 && (wait == 0 || due < wait) {
		wait = due
	}
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
	c.stats.Sent++
	return f.frame
}

// sent starts the acknowledgement timeout of the item that was just sent.
func (c *conversation) sent(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flight != nil && !c.flight.until.IsZero() {
		c.flight.until = now
		if !c.dialect.api().unconfirmed {
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
	case ready && c.dialect.api().unconfirmed:
		c.delivered(f, now)
	case !ready:
		f.until = now.Add(c.opts.AckTimeout)
	case f.sends >= c.opts.Attempts && len(f.batch) > 1:
		c.flight = nil
		c.queue.restore(f.batch) // one of the messages may be the cause
	case f.sends >= c.opts.Attempts:
		c.giveUp(f, "the endpoint never acknowledged the message")
	default:
		f.until = time.Time{}
		if c.queue.supersede(f.batch) {
			c.flight = nil
		}
	}
}

// retry schedules another attempt after a temporary error, or gives up after too many attempts.
func (c *conversation) retry(f *flight, why string, now time.Time) {
	if f.sends >= c.opts.Attempts {
		c.giveUp(f, why)
		return
	}
	f.until, f.after = time.Time{}, now.Add(f.retry.Next())
}

// giveUp abandons an item. The cursor stays before its messages, so the next run of the program
// retries each message whose resource has had no newer message delivered.
func (c *conversation) giveUp(f *flight, why string) {
	c.flight = nil
	for _, p := range f.batch {
		c.queue.giveUp(p)
		c.fail(p.Message, why)
	}
}

// rejected handles an item that the endpoint will never accept. If the item contained several
// messages, each is sent again in a separate item, so that one invalid message does not affect the
// others.
func (c *conversation) rejected(f *flight, why string) {
	c.flight = nil
	if len(f.batch) > 1 {
		c.queue.restore(f.batch)
		return
	}
	for _, p := range f.batch {
		c.handled(p)
		c.fail(p.Message, why)
	}
}

// delivered records that an item's messages are in the conversation.
func (c *conversation) delivered(f *flight, now time.Time) {
	c.flight = nil
	c.replies.wanted = c.replies.wanted || c.opts.Respond
	receipts := make([]Receipt, len(f.batch))
	for i, p := range f.batch {
		c.stats.Injected++
		c.handled(p)
		c.setLatestItem(p.key(), f.id)
		receipts[i] = Receipt{Message: p.Message, Session: c.name, At: now, Merged: p.merged, Latency: max(0, now.Sub(p.since))}
		receipts[i].ItemID = f.id
		_, span := c.opts.Tracer.Delivery(context.Background(), "inject", p.happened(), tracing.Event{
			Type: string(event.TypeResourceUpdated), Server: p.ServerID, URI: p.ResourceURI, Trace: p.Trace})
		span.End()
	}
	c.calls = append(c.calls, func() { c.opts.Injected(receipts) })
}

// setLatestItem records which item contains the latest message for a resource. It forgets the
// previous item, so that earlier content that returns is sent again even if an item with its ID was
// added recently.
func (c *conversation) setLatestItem(k key, item string) {
	seen, ok := c.queue.known[k]
	if !ok {
		return
	}
	if seen.item != item {
		delete(c.foreign, seen.item)
	}
	seen.item = item
	c.queue.known[k] = seen
}

// handled records that a message, and all older messages for its resource, need no further
// delivery.
func (c *conversation) handled(p *pending) {
	delete(c.queue.given, p.key())
	if !c.resumable {
		return
	}
	c.progress.add(&p.Message)
	if len(c.progress.newest) > maxNewest {
		c.progress.upTo(c.cursor())
	}
}

func (c *conversation) fail(m Message, why string) {
	c.stats.Failed++
	c.calls = append(c.calls, func() { c.opts.Failed(Failure{Message: m, Session: c.name, Reason: why}) })
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
	s.Merged, s.Stale, s.Dropped = c.queue.merged, c.queue.stale, c.queue.dropped
	s.Waiting = len(c.queue.waiting)
	if c.flight != nil {
		s.Waiting += len(c.flight.batch)
	}
	return s
}

// decode parses a server event in the session's dialect. If whole is false, b is only the beginning
// of the event. decode returns false for irrelevant events.
func (c *conversation) decode(b []byte, whole bool) (serverEvent, bool) {
	c.mu.Lock()
	d := c.dialect
	c.mu.Unlock()
	return d.decode(b, whole)
}

// observe processes a server event. It reports whether the event answers one of our client events,
// such as an error with its ID; a proxy hides such events from the application.
func (c *conversation) observe(e serverEvent) (ours bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()
	now := time.Now()
	c.imports.observe(e)
	if e.opens != nil {
		c.switchDialect(e.opens)
	}
	if f := c.flight; e.confirms != "" {
		if f != nil && e.confirms == eventIDOf(f.id) {
			c.delivered(f, now)
		}
		return strings.HasPrefix(e.confirms, itemEventPrefix)
	}
	switch e.Type {
	case "conversation.item.added", "conversation.item.done", "conversation.item.created":
		c.itemAdded(e, now)
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
		return c.errorEvent(e, now)
	}
	return false
}

// switchDialect switches to the dialect that the session was found to use. An item in flight is
// encoded again.
func (c *conversation) switchDialect(d dialect) {
	c.muted = false
	if c.dialect == d {
		return
	}
	c.dialect = d
	if f := c.flight; f != nil {
		c.flight = nil
		c.queue.restore(f.batch)
		for _, p := range f.batch {
			p.alone = false
		}
	}
}

func (c *conversation) itemAdded(e serverEvent, now time.Time) {
	c.replies.item(e, now)
	f := c.flight
	switch {
	// LocalAI repeats the ID of our event instead of assigning its own event IDs.
	case f != nil && (e.Item.ID == f.id || e.EventID == eventIDOf(f.id)):
		c.delivered(f, now)
	case strings.HasPrefix(e.Item.ID, itemPrefix):
		c.foreign.add(e.Item.ID, now)
	}
}

// errorEvent handles an error. An error that contains the ID of the item in flight affects only
// that item.
func (c *conversation) errorEvent(e serverEvent, now time.Time) (ours bool) {
	id := e.Error.EventID
	f := c.flight
	switch {
	case f != nil && id == eventIDOf(f.id) && e.duplicate():
		// If the item ID is derived from events, a duplicate means that an earlier attempt
		// succeeded. If it is derived from content, it may belong to an older item, even after an
		// unanswered attempt; repeating a message is better than losing it.
		if !f.byContent() || c.foreign.has(f.id, now) {
			c.delivered(f, now)
		} else {
			f.rekey(c.dialect, c.opts.Message)
		}
	case f != nil && id == eventIDOf(f.id) && e.temporary():
		c.retry(f, e.reason(), now)
	case f != nil && id == eventIDOf(f.id):
		c.rejected(f, e.reason())
	case id != "" && id == c.replies.asked:
		c.replies.refused(e.Error.Code == "conversation_already_has_active_response", now)
	case id == "" && permanent(e.Error.Type+"."+e.Error.Code):
		c.fatal = e.reason() // reported as the reason if the connection ends now
	}
	return strings.HasPrefix(id, itemEventPrefix) || strings.HasPrefix(id, replyEventPrefix) || strings.HasPrefix(id, updateEventPrefix)
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

func newFlight(batch []*pending, d dialect, role Role) *flight {
	f := &flight{batch: batch, retry: backoff.New(time.Second, 30*time.Second)}
	f.encode(d, role)
	return f
}

func (f *flight) encode(d dialect, role Role) {
	f.id = f.batch[0].ItemID
	if len(f.batch) > 1 {
		ids := make([]string, len(f.batch))
		for i, p := range f.batch {
			ids[i] = p.ItemID
		}
		f.id = hashID(ids...)
	}
	f.frame, _ = d.create(f.id, role, f.batch) // encoding strings cannot fail
}

// byContent reports whether the item's ID is derived only from content.
func (f *flight) byContent() bool {
	return !slices.ContainsFunc(f.batch, func(p *pending) bool { return !p.byContent })
}

// rekey assigns the item a new ID, derived from its events, because an older item in the
// conversation has its current ID.
func (f *flight) rekey(d dialect, o MessageOptions) {
	for _, p := range f.batch {
		p.byContent = false
		p.ItemID = eventItemID(o.Scope, &p.Message)
	}
	f.until = time.Time{}
	f.encode(d, o.Role)
}

// recent maps the IDs of items that other injectors added to the times they were added.
type recent map[string]time.Time

// Limits on entries in recent.
const (
	maxRecent = 256
	recently  = 10 * time.Second
)

func (r recent) add(id string, now time.Time) {
	for k, at := range r {
		if now.Sub(at) > recently || len(r) >= maxRecent {
			delete(r, k)
		}
	}
	r[id] = now
}

func (r recent) has(id string, now time.Time) bool {
	at, ok := r[id]
	return ok && now.Sub(at) <= recently
}
