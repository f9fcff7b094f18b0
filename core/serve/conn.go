package serve

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// conn is the connection of one ServeIO.
type conn struct {
	srv *Server
	// ctx is that of everything in work: done when ServeIO may not wait for it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	out    *outbox
	// ending is closed by finish: streams are to end in good order.
	ending chan struct{}
	// slots has one for each function in work, which its goroutine takes and gives
	// back when the answer is written.
	slots   chan struct{}
	waiting waiting
	wg      sync.WaitGroup // functions in work or waiting, listens and the legacy pusher

	// legacy is what initialize made; it belongs to the reader.
	legacy *legacyState

	inWork  inWork // functions and listens
	listens atomic.Int64
}

// legacyState is a connection of the initialize era.
type legacyState struct {
	version string
	sub     *subscriptions.Subscriber
	pushes  bool // the pusher runs
	stop    context.CancelFunc
}

// handle deals with one message. What takes time goes on elsewhere; what changes
// the state of the connection happens, and is answered, in the order of requests.
func (c *conn) handle(data []byte) {
	m, failed := parse(data)
	if failed != nil {
		if m.id != nil || m.method == "" {
			c.refuse(m.id, failed)
		}
		return
	}
	if c.legacy != nil && m.method != methodInitialize {
		c.startPushing()
	}
	switch {
	case m.isAnswer():
	case m.id == nil:
		if m.method == noteCancelled {
			c.inWork.cancel(m.fields["requestId"])
		}
	default:
		c.request(m)
	}
}

func (c *conn) request(m *message) {
	who := caller{modern: m.meta[metaVersion] != nil || m.method == methodDiscover || m.method == methodListen}
	switch {
	case who.modern:
	case m.method == methodInitialize:
		c.initialize(m)
		return
	case c.legacy != nil:
		who.version = c.legacy.version
	case m.method != methodPing:
		who.modern = true // and lacks what it needs
	}
	if who.modern {
		who.version = modernVersion
		if failed := checkMeta(m); failed != nil {
			c.refuse(m.id, failed)
			return
		}
	}
	switch offered := c.srv.offers(m.method, who.modern); {
	case offered && m.method == methodListen:
		c.listen(m)
	case offered && (m.method == methodSubscribe || m.method == methodUnsubscribe):
		sub := c.legacy.sub
		c.out.put(func() []byte { return line(subscribe(sub, m)) })
	case offered && !quick(m.method):
		c.work(m, who)
	default:
		c.out.put(func() []byte { return c.answerTo(c.ctx, m, who) })
	}
}

func (c *conn) refuse(id json.RawMessage, failed *Error) {
	c.out.put(func() []byte { return line(answer(id, nil, failed)) })
}

func (c *conn) answerTo(ctx context.Context, m *message, who caller) []byte {
	result, failed := c.srv.result(ctx, m, who)
	return line(answer(m.id, result, failed))
}

// initialize begins the legacy era, again if it had begun: subscriptions are gone
// then.
func (c *conn) initialize(m *message) {
	version, result, failed := c.srv.initialized(m)
	if failed != nil {
		c.refuse(m.id, failed)
		return
	}
	sub, err := c.srv.subs.Open(c.srv.listsOffered())
	if err != nil {
		c.refuse(m.id, refuse(CodeInternal, "%s", err))
		return
	}
	if c.legacy != nil {
		c.legacy.stop()
		c.legacy.sub.Close()
	}
	c.legacy = &legacyState{version: version, sub: sub, stop: func() {}}
	c.out.put(func() []byte { return line(answer(m.id, result, nil)) })
}

// startPushing begins to push with the first message after initialize: before, the
// client may not have our answer yet.
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

// subscribe and unsubscribe are answered right after they took effect.
func subscribe(sub *subscriptions.Subscriber, m *message) []byte {
	uri := text(m.fields["uri"])
	if m.method == methodUnsubscribe {
		sub.Remove(uri)
	} else if err := sub.Add(uri); err != nil {
		return answer(m.id, nil, subscribeError(err))
	}
	return answer(m.id, json.RawMessage("{}"), nil)
}

// waiting counts the requests that wait for a slot, and their bytes.
type waiting struct {
	mu           sync.Mutex
	count, bytes int
}

// begin notes one of a size, unless there are too many.
func (w *waiting) begin(size int, o *Options) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count >= o.MaxWaiting || w.bytes+size > 16*o.MaxMessage {
		return false
	}
	w.count, w.bytes = w.count+1, w.bytes+size
	return true
}

func (w *waiting) end(size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count, w.bytes = w.count-1, w.bytes-size
}

// work has a function of the options answer, once there is a slot for it. The reader
// goes on meanwhile: what it reads may cancel what has all the slots.
func (c *conn) work(m *message, who caller) {
	ctx, end, ok := c.inWork.begin(c.ctx, m.id)
	if !ok {
		c.refuse(m.id, busy())
		return
	}
	size := len(m.params)
	if !c.waiting.begin(size, &c.srv.opts) {
		end()
		c.refuse(m.id, refuse(CodeInternal, "too many requests wait for their turn"))
		return
	}
	c.wg.Go(func() {
		var result json.RawMessage
		var failed *Error
		select {
		case c.slots <- struct{}{}:
			c.waiting.end(size)
			defer func() { <-c.slots }()
			notes := newNotifier(ctx, func(ctx context.Context, message []byte) { _ = c.out.write(ctx, message) })
			who.notify = notes.notify
			result, failed = c.srv.result(ctx, m, who)
			notes.close()
		case <-ctx.Done():
			c.waiting.end(size)
			failed = refuse(CodeInternal, "%s", context.Cause(ctx))
		}
		cancelled := wasCancelled(ctx)
		end()
		if !cancelled {
			// Not under ctx: also when the server closes the client is told.
			_ = c.out.write(context.Background(), answer(m.id, result, failed))
		}
	})
}

// listen serves a stream of the modern era. One that the client cancels gets no
// answer; one that we end does.
func (c *conn) listen(m *message) {
	ctx, end, ok := c.inWork.begin(c.ctx, m.id)
	if !ok {
		c.refuse(m.id, busy())
		return
	}
	if c.listens.Add(1) > int64(c.srv.opts.MaxListens) {
		c.listens.Add(-1)
		end()
		c.refuse(m.id, refuse(CodeInternal, "at most %d listens for a client", c.srv.opts.MaxListens))
		return
	}
	c.wg.Go(func() {
		defer c.listens.Add(-1)
		c.stream(ctx, m, end)
	})
}

func (c *conn) stream(ctx context.Context, m *message, end func()) {
	defer end()
	l, failed := c.srv.listen(m)
	if failed != nil {
		c.refuse(m.id, failed)
		return
	}
	defer l.sub.Close()
	if c.out.write(ctx, l.ack) != nil {
		return
	}
	if !l.empty {
		_ = (&pusher{sub: l.sub, tag: m.id, send: c.push}).run(ctx, c.ending)
	}
	if !wasCancelled(ctx) {
		_ = c.out.write(context.Background(), answer(m.id, l.end, nil))
	}
}
