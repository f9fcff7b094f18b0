package mcpserver

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/nowait"
)

// Limits for one stdio connection. Over HTTP, waiting requests are limited by the number of
// connections, and listens by Options.Subscriptions.MaxSubscribers.
const (
	maxWaiting = 1_024 // requests that wait while Options.MaxInFlight others run
	maxListens = 64    // open subscriptions/listen requests
)

var errClosed = errors.New("the server is shutting down")

// ServeIO serves one client that sends newline-delimited JSON-RPC of either era. It returns nil at
// the end of in or when the server closes, the cause of ctx when ctx is done, and otherwise the
// read or write error. At the end of in, all pending requests are still answered and listens
// receive their results; in all other cases requests in flight are cancelled first.
//
// ServeIO closes in if it is an io.Closer. It also closes out if the client does not read the last
// responses within one second after ctx is done or the server closes, or if a single Write after
// the end of in takes longer than one second. A Read or Write that closing does not interrupt, such
// as one on a terminal, may continue after ServeIO has returned.
func (s *Server) ServeIO(ctx context.Context, in io.Reader, out io.Writer) error {
	return s.ServeResumable(ctx, in, out, nil, nil)
}

// ServeResumable does the same as ServeIO for a client that may have lost an earlier connection, also to another
// process. seen has the digests of the lists that the client has seen: it is notified of those that differ. saw
// receives the digest of each list before it is sent to the client, possibly from several goroutines. It may be nil.
func (s *Server) ServeResumable(ctx context.Context, in io.Reader, out io.Writer, seen map[string]string, saw func(method, digest string)) error {
	if !s.enter() {
		closeIf(in)
		return nil
	}
	defer s.wg.Done()
	c := &stdioConn{
		srv:    s,
		ending: make(chan struct{}),
		slots:  make(chan struct{}, s.opts.MaxInFlight),
		id:     nameDigest(rand.Text())[:8],
		seen:   maps.Clone(seen),
		saw:    saw,
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer context.AfterFunc(s.ctx, func() { c.cancel(errClosed) })()
	c.out = newOutbox(out, func(err error) { c.cancel(err) })
	abandon := func() {
		closeIf(out)
		c.out.leave()
	}
	defer context.AfterFunc(c.ctx, func() {
		timer := time.NewTimer(drainTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			abandon()
		case <-c.out.gone:
		}
	})()
	go c.out.run() // finish waits for this goroutine

	read := make(chan error, 1) // receives why the goroutine below ended, which then closes it
	go func() {
		defer close(read)
		read <- c.read(in)
	}()
	var err error
	select {
	case err = <-read:
	case <-c.ctx.Done():
		err = context.Cause(c.ctx)
	}
	if err != nil {
		c.cancel(err)
	}
	var watch sync.WaitGroup
	watch.Go(func() { c.out.watch(abandon) })
	c.finish()
	watch.Wait()
	c.cancel(nil)
	closeIf(in)
	select {
	case <-read:
	case <-time.After(100 * time.Millisecond): // closing in did not interrupt the Read
	}
	if errors.Is(err, errClosed) {
		err = nil
	}
	return err
}

// read handles messages until the end of input, when it returns nil, or the next message after ctx is done.
func (c *stdioConn) read(in io.Reader) error {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		text, err := readLine(r, c.srv.opts.MaxMessage)
		switch {
		case err == nil && len(text) == 0:
		case err == nil:
			if err := c.handleNext(text); err != nil {
				return err
			}
		case errors.Is(err, errLong):
			c.fail(nil, errorf(mcp.CodeInvalidRequest, "the message is larger than %d bytes", c.srv.opts.MaxMessage))
		case errors.Is(err, io.EOF):
			return nil
		default:
			return fmt.Errorf("read from the client: %w", err)
		}
	}
}

// handleNext handles a message, unless the connection has ended.
func (c *stdioConn) handleNext(data []byte) error {
	c.handling.Lock()
	defer c.handling.Unlock()
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	c.handle(data)
	return nil
}

// finish stops everything that the connection started and waits for it.
func (c *stdioConn) finish() {
	c.handling.Lock()
	legacy := c.legacy // nothing is handled from here on: the input or ctx has ended
	c.handling.Unlock()
	close(c.ending)
	if legacy != nil {
		legacy.mute()
	}
	c.wg.Wait()
	if legacy != nil {
		legacy.leave()
		legacy.sub.Close()
	}
	close(c.out.quit)
	<-c.out.gone
}

var errLong = errors.New("line too long")

// readLine returns the next line without its newline. It skips a line that exceeds limit and
// returns errLong. A last line without a newline is returned normally, followed by io.EOF.
func readLine(r *bufio.Reader, limit int) (text []byte, err error) {
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(text)+len(part) > limit+1; long {
			text = nil
		} else {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(text) == 0 && !long):
			return nil, err
		case long:
			return nil, errLong
		}
		return trimEnd(text), nil
	}
}

func trimEnd(text []byte) []byte {
	for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r' || text[len(text)-1] == ' ') {
		text = text[:len(text)-1]
	}
	return text
}

func closeIf(v any) {
	if c, ok := v.(io.Closer); ok {
		_ = c.Close()
	}
}

// stdioConn is the connection that one call to ServeIO serves.
type stdioConn struct {
	srv *Server
	id  string // see [Request.Session]
	// ctx is the parent context of every request. It is cancelled if the connection fails.
	ctx    context.Context
	cancel context.CancelCauseFunc
	out    *outbox
	// ending is closed by finish, which makes streams end with their results.
	ending chan struct{}
	// slots is a semaphore that limits running Funcs. A goroutine sends to it to acquire a slot,
	// and receives from it to release the slot after writing the response. It is never closed.
	slots   chan struct{}
	waiting waiting
	wg      sync.WaitGroup // tracks running and waiting Funcs, listens and the legacy pusher

	handling sync.Mutex   // held while a message is handled
	legacy   *legacyState // set by initialize; guarded by handling

	inFlight inFlight // requests handled by Funcs, and listens
	listens  atomic.Int64

	saw    func(method, digest string) // nil if digests are not recorded
	seenMu sync.Mutex
	seen   map[string]string // digests of the lists that the client saw last, by method; nil if there are none
}

// sees records the digest of a list that is sent to the client.
func (c *stdioConn) sees(method, digest string) {
	c.seenMu.Lock()
	known, ok := c.seen[method]
	if c.seen == nil {
		c.seen = map[string]string{}
	}
	c.seen[method] = digest
	c.seenMu.Unlock()
	if !ok || known != digest {
		c.saw(method, digest)
	}
}

// missed returns what the client has not been told: that lists differ from those that it saw last.
func (c *stdioConn) missed() subscriptions.Batch {
	c.seenMu.Lock()
	defer c.seenMu.Unlock()
	return subscriptions.Batch{Lists: c.srv.lists.changedSince(c.seen)}
}

// legacyState is the state of a connection whose client has sent initialize.
type legacyState struct {
	version string
	sub     *subscriptions.Subscriber
	pushes  bool               // whether the pusher has been started
	stop    context.CancelFunc // stops the pusher
	client  *Client
	mute    context.CancelFunc // called when the client can no longer answer requests
	leave   context.CancelFunc // called when the client disconnects or initializes again
}

// handle processes one message. Funcs run on other goroutines. Requests that change the state of
// the connection are executed and answered in order.
func (c *stdioConn) handle(data []byte) {
	if c.legacy != nil && c.legacy.version == batchVersion {
		if batch := splitBatch(data); batch != nil {
			for _, message := range batch {
				c.handle(message)
			}
			return
		}
	}
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
		} else {
			c.srv.receive(c.client(), m)
		}
	default:
		c.request(m)
	}
}

func (c *stdioConn) request(m *message) {
	from := caller{stdio: true, session: c.id, modern: m.meta[mcp.MetaProtocolVersion] != nil || m.method == mcp.MethodDiscover || m.method == mcp.MethodListen}
	if c.saw != nil {
		from.saw = c.sees
	}
	switch {
	case from.modern:
	case m.method == mcp.MethodInitialize:
		c.initialize(m)
		return
	case c.legacy != nil:
		from.version, from.client, from.sub = c.legacy.version, c.legacy.client, c.legacy.sub
	case m.method != mcp.MethodPing:
		from.modern = true // rejected below because _meta is missing
	}
	if from.modern {
		from.version = mcp.ModernVersion
		if failed := checkMeta(m); failed != nil {
			c.fail(m.id, failed)
			return
		}
	}
	switch offered := c.srv.offers(m.method, from.modern); {
	case offered && m.method == mcp.MethodListen:
		c.listen(m)
	case offered && m.method == mcp.MethodStreamEvents && c.srv.opts.Events.offered():
		c.streamEvents(m, from)
	case offered && (m.method == mcp.MethodSubscribe || m.method == mcp.MethodUnsubscribe):
		sub := c.legacy.sub
		c.out.put(func() []byte { return line(subscribe(sub, m)) })
	case offered && (!c.srv.fromMemory(m.method) || c.srv.mayWait(m.method)):
		c.runFunc(m, from)
	default:
		c.out.put(func() []byte { return c.answerTo(c.ctx, m, from) })
	}
}

func (c *stdioConn) fail(id json.RawMessage, failed *Error) {
	c.out.put(func() []byte { return line(answer(id, nil, failed)) })
}

// begin calls inFlight.begin. If the request id is already in use, it responds with an error.
func (c *stdioConn) begin(m *message) (ctx context.Context, end func(), ok bool) {
	if ctx, end, ok = c.inFlight.begin(c.ctx, m.id); !ok {
		c.fail(m.id, errDuplicateID())
	}
	return ctx, end, ok
}

func (c *stdioConn) answerTo(ctx context.Context, m *message, from caller) []byte {
	result, failed := c.srv.result(ctx, m, from)
	return line(answer(m.id, result, failed))
}

// initialize starts the legacy era on the connection. Another initialize drops the subscriptions of
// the first.
func (c *stdioConn) initialize(m *message) {
	version, result, failed := c.srv.initialized(c.ctx, m)
	if failed != nil {
		c.fail(m.id, failed)
		return
	}
	sub, err := c.srv.subs.Open("", c.srv.opts.listsOffered())
	if err != nil {
		c.fail(m.id, errorf(mcp.CodeInternal, "%s", err))
		return
	}
	sub.Restore(c.missed())
	if c.legacy != nil {
		c.legacy.stop()
		c.legacy.leave()
		c.legacy.sub.Close()
	}
	gone, leave := context.WithCancel(c.ctx)
	ctx, mute := context.WithCancel(gone)
	c.legacy = &legacyState{version: version, sub: sub, stop: func() {}, leave: leave, mute: mute}
	c.legacy.client = newClient(ctx, gone, clientName(m.fields["clientInfo"]), c.id, m.fields["capabilities"], func(message []byte) bool { return c.out.write(ctx, message) == nil })
	c.srv.connected(c.legacy.client)
	c.out.put(func() []byte { return line(answer(m.id, result, nil)) })
}

// client returns the legacy client of the connection, or nil before initialize.
func (c *stdioConn) client() *Client {
	if c.legacy == nil {
		return nil
	}
	return c.legacy.client
}

// startPushing starts to send notifications on the first message after initialize, because earlier
// the client may not yet have received the response to initialize.
func (c *stdioConn) startPushing() {
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

func (c *stdioConn) push(ctx context.Context, _ subscriptions.Batch, message []byte) error {
	return c.out.write(ctx, message)
}

// subscribe executes a resources/subscribe or resources/unsubscribe request and returns the encoded
// response.
func subscribe(sub *subscriptions.Subscriber, m *message) []byte {
	uri := text(m.fields["uri"])
	if m.method == mcp.MethodUnsubscribe {
		sub.Remove(uri)
	} else if err := sub.Add(uri); err != nil {
		return answer(m.id, nil, subscribeError(err))
	}
	return answer(m.id, json.RawMessage("{}"), nil)
}

// runFunc calls the Func for a request once a slot is free. Meanwhile the reader continues, because
// the next message may cancel a request that occupies a slot.
func (c *stdioConn) runFunc(m *message, from caller) {
	ctx, end, ok := c.begin(m)
	if !ok {
		return
	}
	from.after = new(afterwards)
	size := len(m.params)
	if !c.waiting.begin(size, 16*c.srv.opts.MaxMessage) {
		end()
		c.fail(m.id, errorf(mcp.CodeInternal, "too many requests are waiting on this connection"))
		return
	}
	c.wg.Go(func() {
		growStack(0)
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
			// The response is sent even while the server closes, so it does not use ctx.
			_ = c.out.write(context.Background(), answer(m.id, result, failed))
		}
	})
}

// growStack grows the stack of a new goroutine to what a Func needs, while there is nothing on it. Otherwise it
// grows several times during the Func, which copies and adjusts all frames each time: a tenth of a call's work.
//
//go:noinline
func growStack(at int) byte {
	var room [12 << 10]byte
	return room[at]
}

// waiting counts the requests that wait for a slot, and their total size.
type waiting struct {
	mu           sync.Mutex
	count, bytes int
}

// begin counts a waiting request of the given size in bytes. It reports false if this would exceed
// maxWaiting or the limit for the total size. The caller must call end when the request no longer
// waits.
func (w *waiting) begin(size, limit int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count >= maxWaiting || w.bytes+size > limit {
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

// drainTimeout limits how long a client that does not read can delay a shutdown.
const drainTimeout = time.Second

// outbox writes the lines of a connection in order: by the goroutine that has them if that need not wait, and
// otherwise by its own.
type outbox struct {
	to stream
	// jobs receives jobs from the reader, requests, listens and notifiers. It is never closed,
	// because a notification may arrive late. Its capacity limits how many responses without a Func
	// a client may request while it does not read.
	jobs chan job
	// quit is closed by the owner after it has sent the last response to jobs.
	quit chan struct{}
	// gone is closed when the outbox has stopped writing.
	gone  chan struct{}
	leave func() // closes gone once

	failed func(error) // called at most once, with the first write error
	// writes is incremented before and after each Write, so that it is odd during a Write.
	writes atomic.Uint64

	mu      sync.Mutex // guards waiting, and is held during a Try, which does not wait
	waiting int        // jobs that are not done, and 1 when gone is closed
}

// stream is what an outbox writes to. Try is that of a [nowait.Writer].
type stream interface {
	io.Writer
	Try(p []byte) int
}

// job produces zero or more lines. lines runs on the writing goroutine immediately before its
// result is written; if it returns nil, nothing is written.
type job struct {
	lines func() []byte
	done  chan struct{} // closed after the lines are written; may be nil
}

func newOutbox(out io.Writer, failed func(error)) *outbox {
	to, ok := out.(stream)
	if file, is := out.(*os.File); is {
		to = nowait.NewWriter(file)
	} else if !ok {
		to = nowait.NewWriter(struct{ io.Writer }{out}) // only by Write, which may change what it writes
	}
	o := &outbox{to: to, jobs: make(chan job, 16), quit: make(chan struct{}), gone: make(chan struct{}), failed: failed}
	o.leave = sync.OnceFunc(func() {
		o.count(1) // so that nobody writes any longer
		close(o.gone)
	})
	return o
}

// run does the jobs. It returns after a write error, or when quit is closed and all jobs are done.
func (o *outbox) run() {
	defer o.leave()
	for {
		select {
		case j := <-o.jobs:
			if !o.do(j) {
				return
			}
		case <-o.quit: // write the jobs that are still queued
			for {
				select {
				case j := <-o.jobs:
					if !o.do(j) {
						return
					}
				default:
					return
				}
			}
		}
	}
}

// do runs one job. It reports false if writing failed.
func (o *outbox) do(j job) bool {
	if lines := j.lines(); lines != nil {
		o.writes.Add(1)
		_, err := o.to.Write(lines)
		o.writes.Add(1)
		if err != nil {
			o.failed(fmt.Errorf("write to the client: %w", err))
			return false
		}
	}
	o.count(-1)
	if j.done != nil {
		close(j.done)
	}
	return true
}

// watch calls abandon if a single Write takes longer than drainTimeout. It returns after that, or
// when the outbox has stopped.
func (o *outbox) watch(abandon func()) {
	tick := time.NewTicker(drainTimeout)
	defer tick.Stop()
	for before := o.writes.Load(); ; {
		select {
		case <-tick.C:
			now := o.writes.Load()
			if now == before && now%2 == 1 {
				abandon()
				return
			}
			before = now
		case <-o.gone:
			return
		}
	}
}

// put queues a job without waiting until it is done.
func (o *outbox) put(lines func() []byte) {
	o.count(1)
	select {
	case o.jobs <- job{lines: lines}:
	case <-o.gone:
	}
}

// write queues a message and waits until it is written. If it returns an error (the cause of ctx,
// or io.ErrClosedPipe), the message may or may not be written.
func (o *outbox) write(ctx context.Context, message []byte) error {
	_, err := o.deliver(ctx, message)
	return err
}

// queue works like write, but reports whether the message was queued. A queued message is written
// before later ones, even if ctx is done, unless the client has disconnected.
func (o *outbox) queue(ctx context.Context, message []byte) bool {
	queued, _ := o.deliver(ctx, message)
	return queued
}

func (o *outbox) deliver(ctx context.Context, message []byte) (queued bool, err error) {
	message = line(message)
	o.mu.Lock()
	n := 0
	if o.waiting == 0 {
		n = o.to.Try(message)
	}
	if n == len(message) {
		o.mu.Unlock()
		return true, nil
	}
	o.waiting++
	j := job{lines: func() []byte { return message[n:] }, done: make(chan struct{})}
	if n > 0 { // the rest must be the next job; jobs is empty
		o.jobs <- j
	}
	o.mu.Unlock()
	if n == 0 {
		select {
		case o.jobs <- j:
		case <-ctx.Done():
			o.count(-1)
			return false, context.Cause(ctx)
		case <-o.gone:
			return false, io.ErrClosedPipe
		}
	}
	select {
	case <-j.done:
		return true, nil
	case <-ctx.Done():
		return true, context.Cause(ctx)
	case <-o.gone:
		return true, io.ErrClosedPipe
	}
}

// count adds to the number of jobs that are not done.
func (o *outbox) count(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting += n
}

func line(message []byte) []byte { return append(message, '\n') }
