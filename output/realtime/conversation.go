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
	"github.com/mcptrack/mcptrack/core/printable"
)

// conversation delivers messages to one conversation, over one connection after another:
// for each connection begin and then run are called. offer and observe may be called from any
// goroutine and never wait.
type conversation struct {
	name      string
	opts      DeliveryOptions
	resumable bool // which messages were handled is recorded in progress
	// wake signals run that something below changed. Capacity 1: run looks at all of it;
	// sent to by any goroutine, never closed.
	wake chan struct{}

	mu       sync.Mutex // guards the rest; never held across I/O or a hook
	queue    *queue
	dialect  dialect
	muted    bool    // the dialect is not known yet: send nothing
	flight   *flight // the item that is being delivered
	answer   []byte  // a client event to send before anything else; nil: none
	replies  replies
	imports  toolImports
	foreign  recent        // items that other programs like this one added
	fatal    string        // the last error that is not about our events and that no retry would change; "": none
	finish   bool          // nothing more will be offered: end when everything is delivered
	ended    chan struct{} // closed when finish is set
	hooks    hooks
	progress progress
	stats    Stats // the counts that queue and hooks do not keep
}

// connection holds the functions of a connection that conversation.run uses.
type connection struct {
	send func(context.Context, []byte) error
	// ready reports whether an acknowledgement of an item, if the endpoint had sent it,
	// would have been seen by now; an error ends the connection.
	ready func(context.Context) (bool, error)
}

// errFinished ends a run after which there is nothing left to do.
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

// offer accepts an event. Of an event other than resource.updated only the id is recorded.
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

func (c *conversation) pass(id string) {
	if id == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.last = id
}

// toolsChanged makes the session import the tools of the server of e again if the session uses
// them. url is the URL of the server, "" if it is not known.
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

// done reports whether everything is delivered and nothing more will be offered, so that no
// further connection is needed.
func (c *conversation) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.finish && len(c.queue.waiting) == 0 && c.flight == nil && !c.replies.wanted
}

// run delivers over one connection until ctx ends (its cause is the error), the
// connection fails, or nothing is left to do (errFinished). begin must be called before it.
func (c *conversation) run(ctx context.Context, l connection) error {
	defer c.hooks.run(&c.mu, &c.opts)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.hooks.run(&c.mu, &c.opts)
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

// step decides what run does next: send frame; if late, find out why an acknowledgement is
// late; or wait that long, until something changes if wait is 0. A negative wait means that
// nothing is left to do.
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
		f.launch(now)
		c.stats.Sent++
		return f.frame, false, 0
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
			c.queue.offer(toolsMessage(e, c.opts.Message.Scope), now)
		} else {
			c.hooks.fail(Failure{Message: Message{ServerID: label}, Session: c.name, Reason: c.imports.reason()})
		}
	}
	if frame != nil {
		return frame, false, 0
	}
	if len(failed) > 0 {
		return nil, false, time.Nanosecond // report it
	}
	if patience > 0 && (wait == 0 || patience < wait) {
		wait = patience
	}
	batch, due := c.queue.take(now, c.dialect.api().limits)
	if len(batch) > 0 {
		f := newFlight(batch, c.dialect, c.opts.Message.Role)
		if c.foreign.has(f.id, now) { // another injector was faster
			c.delivered(f, now)
			return nil, false, time.Nanosecond
		}
		c.flight = f
		f.launch(now)
		c.stats.Sent++
		return f.frame, false, 0
	}
	if due > 0 && (wait == 0 || due < wait) {
		wait = due
	}
	if c.finish && len(c.queue.waiting) == 0 && wait == 0 && !c.replies.busy() {
		return nil, false, -1
	}
	return nil, false, wait
}

// cursor returns the id of the event up to which every update was handled.
func (c *conversation) cursor() string {
	if c.flight != nil {
		return c.queue.cursor(c.flight.batch)
	}
	return c.queue.cursor(nil)
}

// decode parses a server event in the dialect of the session. whole is false if b is only the
// beginning of the event. It returns false for events that do not matter here.
func (c *conversation) decode(b []byte, whole bool) (serverEvent, bool) {
	c.mu.Lock()
	d := c.dialect
	c.mu.Unlock()
	return d.decode(b, whole)
}

// flight is the item in flight: a batch of messages that is being delivered.
type flight struct {
	batch []*pending
	id    string // of the item
	frame []byte
	sends int       // over this connection
	total int       // over all connections
	until time.Time // the deadline of the acknowledgement; zero: the item is to be sent
	after time.Time // the item is not sent before; zero: it may be sent now
	retry *backoff.Backoff
}

func newFlight(batch []*pending, d dialect, role Role) *flight {
	f := &flight{batch: batch, retry: backoff.New(time.Second, 30*time.Second)}
	f.encode(d, role)
	return f
}

func (f *flight) encode(d dialect, role Role) {
	f.id = batchID(f.batch)
	f.frame, _ = d.create(f.id, role, f.batch) // strings always encode
}

// launch records that the item is about to be sent: its acknowledgement may arrive
// before send returns.
func (f *flight) launch(now time.Time) {
	f.sends++
	f.total++
	f.until = now.Add(time.Hour)
}

// begin resets what was in progress over the last connection. It is called before anything
// is read from the next one. An item without an acknowledgement is sent again, unless newer
// updates of all its resources wait.
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

// sent starts the timeout of the item that was sent last.
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

// repeat handles an acknowledgement that is late. ready says that it would have been seen if
// the endpoint had sent it.
func (c *conversation) repeat(ready bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flight
	switch {
	case f == nil: // the acknowledgement has arrived
	case ready && c.dialect.api().unconfirmed:
		c.delivered(f, now)
	case !ready:
		f.until = now.Add(c.opts.AckTimeout)
	case f.sends >= c.opts.Attempts && len(f.batch) > 1:
		c.flight = nil
		c.queue.restore(f.batch) // perhaps one of the messages is the reason
	case f.sends >= c.opts.Attempts:
		c.giveUp(f, "the endpoint never acknowledged the message")
	default:
		f.until = time.Time{}
		if c.queue.supersede(f.batch) {
			c.flight = nil
		}
	}
}

// again schedules another attempt after an error that may pass, or gives up.
func (c *conversation) again(f *flight, why string, now time.Time) {
	if f.sends >= c.opts.Attempts {
		c.giveUp(f, why)
		return
	}
	f.until, f.after = time.Time{}, now.Add(f.retry.Next())
}

// giveUp ends the attempts to deliver an item. The cursor stays before its messages: the next
// run of the program tries again to deliver each, unless a newer message about its resource
// was delivered.
func (c *conversation) giveUp(f *flight, why string) {
	c.flight = nil
	for _, p := range f.batch {
		c.queue.giveUp(p)
		c.hooks.fail(Failure{Message: p.Message, Session: c.name, Reason: why})
	}
}

// rejected ends the delivery of an item that the endpoint will never accept. Messages that
// shared an item are sent again one by one: one bad message must not affect others.
func (c *conversation) rejected(f *flight, why string) {
	c.flight = nil
	if len(f.batch) > 1 {
		c.queue.restore(f.batch)
		return
	}
	for _, p := range f.batch {
		c.handled(p)
		c.hooks.fail(Failure{Message: p.Message, Session: c.name, Reason: why})
	}
}

// byContent reports whether the id of the item depends on nothing but contents.
func (f *flight) byContent() bool {
	return !slices.ContainsFunc(f.batch, func(p *pending) bool { return !p.byContent })
}

// rekey gives an item whose id an older item of the conversation has already another id, which
// is derived from the events.
func (f *flight) rekey(d dialect, o MessageOptions) {
	for _, p := range f.batch {
		p.byContent = false
		p.ItemID = eventItemID(o.Scope, &p.Message)
	}
	f.until = time.Time{}
	f.encode(d, o.Role)
}

// observe processes a server event. It returns true for an event that answers a client event
// of ours, such as an error that names it: a proxy hides it from the application.
func (c *conversation) observe(e serverEvent) (ours bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.signal()
	now := time.Now()
	c.imports.observe(e)
	if e.opens != nil {
		c.speak(e.opens)
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

// speak switches to the dialect that the session turned out to have. An item in flight is
// encoded again.
func (c *conversation) speak(d dialect) {
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
	// LocalAI repeats the id of our event instead of giving events ids of its own.
	case f != nil && (e.Item.ID == f.id || e.EventID == eventIDOf(f.id)):
		c.delivered(f, now)
	case strings.HasPrefix(e.Item.ID, itemPrefix):
		c.foreign.add(e.Item.ID, now)
	}
}

// errorEvent handles an error: one that names the item in flight is about that item and
// nothing else.
func (c *conversation) errorEvent(e serverEvent, now time.Time) (ours bool) {
	id := e.Error.EventID
	f := c.flight
	switch {
	case f != nil && id == eventIDOf(f.id) && duplicate(e):
		// An id of events was used by an earlier attempt. One of contents may be of an older item,
		// also after an attempt that was not answered; a repeated message is better than none.
		if !f.byContent() || c.foreign.has(f.id, now) {
			c.delivered(f, now)
		} else {
			f.rekey(c.dialect, c.opts.Message)
		}
	case f != nil && id == eventIDOf(f.id) && transient(e):
		c.again(f, reason(e), now)
	case f != nil && id == eventIDOf(f.id):
		c.rejected(f, reason(e))
	case id != "" && id == c.replies.asked:
		c.replies.refused(e.Error.Code == "conversation_already_has_active_response", now)
	case id == "" && final(e.Error.Type+"."+e.Error.Code):
		c.fatal = reason(e) // if the connection ends now, this is why
	}
	return strings.HasPrefix(id, itemEventPrefix) || strings.HasPrefix(id, replyEventPrefix) || strings.HasPrefix(id, updateEventPrefix)
}

// duplicate reports whether an error says that an item with this id exists already.
func duplicate(e serverEvent) bool {
	text := strings.ToLower(e.Error.Code + " " + e.Error.Message)
	return strings.Contains(text, "already exist") || strings.Contains(text, "already_exist") || strings.Contains(text, "duplicate")
}

// transient reports whether an error may pass, so that another attempt can succeed.
func transient(e serverEvent) bool {
	return slices.ContainsFunc([]string{"rate_limit", "server_error", "overloaded", "service_unavailable"}, func(s string) bool {
		return strings.Contains(e.Error.Type, s) || strings.Contains(e.Error.Code, s)
	})
}

// final reports whether s, the type and code of an error or the reason of a close frame, says
// that another attempt would fail, too.
func final(s string) bool {
	return slices.ContainsFunc([]string{"invalid_request_error", "model_not_found", "authentication_error", "permission", "invalid_api_key"},
		func(part string) bool { return strings.Contains(s, part) })
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

func (c *conversation) delivered(f *flight, now time.Time) {
	c.flight = nil
	c.replies.wanted = c.replies.wanted || c.opts.Respond
	receipts := make([]Receipt, len(f.batch))
	for i, p := range f.batch {
		c.stats.Injected++
		c.handled(p)
		c.replaced(p.key(), f.id)
		receipts[i] = Receipt{Message: p.Message, Session: c.name, At: now, Merged: p.merged, Latency: max(0, now.Sub(p.since))}
		receipts[i].ItemID = f.id
	}
	c.hooks.injected(receipts)
}

// replaced records the item with the last message about a resource. The items before it say
// nothing about its present state any more: if an earlier content returns, it is sent again, even
// though an item with its id was seen a moment ago.
func (c *conversation) replaced(k key, item string) {
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

// handled records that a message, and the older ones of its resource, need not be
// delivered any more.
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

// recent holds, by the ids of items that other injectors added, when each was last seen. The
// lock of its owner must be held.
type recent map[string]time.Time

// Bounds of recent: how many items, and for how long.
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

// hooks collects the calls of DeliveryOptions.Injected and Failed while the lock of its owner
// is held; run makes them without the lock.
type hooks struct {
	due    []func(*DeliveryOptions)
	failed uint64
}

func (h *hooks) injected(receipts []Receipt) {
	h.due = append(h.due, func(o *DeliveryOptions) { o.Injected(receipts) })
}

func (h *hooks) fail(f Failure) {
	h.failed++
	h.due = append(h.due, func(o *DeliveryOptions) { o.Failed(f) })
}

// run makes the collected calls. mu is the owner's lock, which must not be held.
func (h *hooks) run(mu *sync.Mutex, o *DeliveryOptions) {
	mu.Lock()
	due := h.due
	h.due = nil
	mu.Unlock()
	for _, call := range due {
		call(o)
	}
}
