package realtime

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
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
