package realtime

import (
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

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
