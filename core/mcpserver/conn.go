package mcpserver

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// conn is the connection that one call of ServeIO serves.
type conn struct {
	srv *Server
	// ctx is the parent of every request; it is cancelled when the connection fails.
	ctx    context.Context
	cancel context.CancelCauseFunc
	out    *outbox
	// ending is closed by finish; streams then end with their results.
	ending chan struct{}
	// slots is a semaphore for running functions. A goroutine sends to acquire a slot
	// and receives to release it after writing the answer; it is never closed.
	slots   chan struct{}
	waiting waiting
	wg      sync.WaitGroup // functions running or waiting, listens and the legacy pusher

	// legacy is set by initialize and used by the reading goroutine only.
	legacy *legacyState

	inFlight inFlight // functions and listens
	listens  atomic.Int64
}

// legacyState is the state of a connection in the legacy era.
type legacyState struct {
	version string
	sub     *subscriptions.Subscriber
	pushes  bool               // the pusher is running
	stop    context.CancelFunc // ends the pusher
	client  *Client
	mute    context.CancelFunc // called when the client can no longer answer requests
	leave   context.CancelFunc // called when the client has left, or initializes again
}

// handle processes one message. Functions run on other goroutines; requests that
// change the state of the connection are executed and answered in order.
func (c *conn) handle(data []byte) {
	m, failed := parse(data)
	if failed != nil {
		if m.id != nil || m.method == "" {
			c.fail(m.id, failed)
		}
		return
	}
	if c.legacy != nil && m.method != mcp.MethodInitialize {
		c.startPushing()
	}
	switch {
	case m.isAnswer() || m.id == nil:
		if m.method == mcp.NotificationCancelled {
			c.inFlight.cancel(m.fields["requestId"])
		} else if c.legacy != nil {
			c.legacy.client.receive(m)
		}
	default:
		c.request(m)
	}
}

func (c *conn) request(m *message) {
	from := caller{modern: m.meta[mcp.MetaProtocolVersion] != nil || m.method == mcp.MethodDiscover || m.method == mcp.MethodListen}
	switch {
	case from.modern:
	case m.method == mcp.MethodInitialize:
		c.initialize(m)
		return
	case c.legacy != nil:
		from.version, from.client, from.sub = c.legacy.version, c.legacy.client, c.legacy.sub
	case m.method != mcp.MethodPing:
		from.modern = true // rejected below, as _meta is missing
	}
	if from.modern {
		from.version = mcp.ModernVersion
		if failed := checkMeta(m); failed != nil {
			c.fail(m.id, failed)
			return
		}
	}
	switch offered := c.srv.opts.offers(m.method, from.modern, c.srv.about.Load()); {
	case offered && m.method == mcp.MethodListen:
		c.listen(m)
	case offered && m.method == mcp.MethodStreamEvents && c.srv.opts.Events.offered():
		c.streamEvents(m, from)
	case offered && (m.method == mcp.MethodSubscribe || m.method == mcp.MethodUnsubscribe):
		sub := c.legacy.sub
		c.out.put(func() []byte { return line(subscribe(sub, m)) })
	case offered && (!fromMemory(m.method) || c.srv.mayWait(m, from)):
		c.runFunc(m, from)
	default:
		c.out.put(func() []byte { return c.answerTo(c.ctx, m, from) })
	}
}

func (c *conn) fail(id json.RawMessage, failed *Error) {
	c.out.put(func() []byte { return line(answer(id, nil, failed)) })
}

func (c *conn) answerTo(ctx context.Context, m *message, from caller) []byte {
	result, failed := c.srv.result(ctx, m, from)
	return line(answer(m.id, result, failed))
}

// initialize begins the legacy era of the connection. A second initialize drops the
// subscriptions that followed the first.
func (c *conn) initialize(m *message) {
	version, result, failed := c.srv.identity().initialized(m)
	if failed != nil {
		c.fail(m.id, failed)
		return
	}
	sub, err := c.srv.subscriber("", m.fields["capabilities"], c.srv.opts.listsOffered())
	if err != nil {
		c.fail(m.id, errorf(mcp.CodeInternal, "%s", err))
		return
	}
	if c.legacy != nil {
		c.legacy.stop()
		c.legacy.leave()
		c.legacy.sub.Close()
	}
	gone, leave := context.WithCancel(c.ctx)
	ctx, mute := context.WithCancel(gone)
	c.legacy = &legacyState{version: version, sub: sub, stop: func() {}, leave: leave, mute: mute}
	c.legacy.client = newClient(ctx, gone, m.fields["capabilities"], func(message []byte) bool { return c.out.write(ctx, message) == nil })
	c.out.put(func() []byte { return line(answer(m.id, result, nil)) })
}

// startPushing starts to send notifications at the first message after initialize:
// before that, the client may not have received the answer yet.
func (c *conn) startPushing() {
	if c.legacy.pushes {
		return
	}
	c.legacy.pushes = true
	ctx, stop := context.WithCancel(c.ctx)
	c.legacy.stop = stop
	p := &pusher{sub: c.legacy.sub, send: c.push}
	c.wg.Go(func() {
		defer stop()
		_ = p.run(ctx, c.ending)
	})
}

func (c *conn) push(ctx context.Context, _ subscriptions.Batch, message []byte) error {
	return c.out.write(ctx, message)
}

// subscribe executes resources/subscribe and resources/unsubscribe and returns the
// encoded answer.
func subscribe(sub *subscriptions.Subscriber, m *message) []byte {
	uri := text(m.fields["uri"])
	if m.method == mcp.MethodUnsubscribe {
		sub.Remove(uri)
	} else if err := sub.Add(uri); err != nil {
		return answer(m.id, nil, subscribeError(err))
	}
	return answer(m.id, json.RawMessage("{}"), nil)
}

// runFunc answers a request with a function of the options, once a slot is free. The
// reader is not blocked meanwhile: the next message may cancel a request that holds a
// slot.
func (c *conn) runFunc(m *message, from caller) {
	ctx, end, ok := c.inFlight.begin(c.ctx, m.id)
	if !ok {
		c.fail(m.id, errDuplicateID())
		return
	}
	from.after = new(afterwards)
	size := len(m.params)
	if !c.waiting.begin(size, &c.srv.opts) {
		end()
		c.fail(m.id, errorf(mcp.CodeInternal, "too many requests are waiting on this connection"))
		return
	}
	c.wg.Go(func() {
		defer from.after.run()
		var result json.RawMessage
		var failed *Error
		select {
		case c.slots <- struct{}{}:
			c.waiting.end(size)
			defer func() { <-c.slots }()
			notes := newNotifier(ctx, c.out.queue)
			from.notes = notes
			result, failed = c.srv.result(ctx, m, from)
			notes.close()
		case <-ctx.Done():
			c.waiting.end(size)
			failed = errorf(mcp.CodeInternal, "%s", context.Cause(ctx))
		}
		cancelled := wasCancelled(ctx)
		end()
		if !cancelled {
			// Not under ctx: the answer is also sent while the server closes.
			_ = c.out.write(context.Background(), answer(m.id, result, failed))
		}
	})
}

// listen serves a subscriptions/listen. When the listen ends, its result is sent, unless the
// client has cancelled it.
func (c *conn) listen(m *message) {
	ctx, end, ok := c.inFlight.begin(c.ctx, m.id)
	if !ok {
		c.fail(m.id, errDuplicateID())
		return
	}
	if c.listens.Add(1) > int64(c.srv.opts.Stdio.MaxListens) {
		c.listens.Add(-1)
		end()
		c.fail(m.id, errorf(mcp.CodeInternal, "a client may have at most %d open event streams and subscriptions/listen requests", c.srv.opts.Stdio.MaxListens))
		return
	}
	c.wg.Go(func() {
		defer c.listens.Add(-1)
		c.stream(ctx, m, end)
	})
}

func (c *conn) stream(ctx context.Context, m *message, end func()) {
	defer end()
	l, failed := c.srv.listen(ctx, m, "")
	if failed != nil {
		end()
		c.fail(m.id, failed)
		return
	}
	defer l.sub.Close()
	if c.out.write(ctx, l.ack) != nil {
		return
	}
	if !l.empty {
		_ = (&pusher{sub: l.sub, tag: m.id, send: c.push, messages: l.messages}).run(ctx, c.ending)
	}
	cancelled := wasCancelled(ctx)
	end()
	if !cancelled {
		_ = c.out.write(context.Background(), answer(m.id, l.end, nil))
	}
}
