package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// bodyTimeout limits how long a client may take to send a message.
const bodyTimeout = 30 * time.Second

// ServeHTTP serves the MCP endpoint for both eras, on any path. It returns when everything it
// started has ended. If a legacy client disconnects during a call, ServeHTTP returns only when the
// call has finished, because a lost connection does not cancel requests in that era.
//
// ServeHTTP sets the deadlines of its connection and limits request bodies to MaxMessage. Clients
// that do not accept text/event-stream receive no notifications.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.wg.Done()
	x := &exchange{srv: s, w: w, r: r, rc: http.NewResponseController(w), m: new(message), principal: s.principal(r)}
	switch r.Method {
	case http.MethodPost:
		x.post()
	case http.MethodGet:
		x.get()
	case http.MethodDelete:
		x.delete()
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

func (x *exchange) post() {
	defer context.AfterFunc(x.srv.ctx, x.shortenDeadline)()
	if t, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type")); err != nil || t != typeJSON || x.r.Header.Get("Content-Encoding") != "" {
		http.Error(x.w, "the Content-Type must be "+typeJSON+", without Content-Encoding", http.StatusUnsupportedMediaType)
		return
	}
	if !accepts(x.r, typeJSON) {
		http.Error(x.w, "the Accept header must include "+typeJSON+" and "+typeEvents, http.StatusNotAcceptable)
		return
	}
	body, err := x.body()
	if err != nil {
		x.w.Header().Set("Connection", "close") // close the connection instead of reading the rest of the body
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			http.Error(x.w, "the message is larger than "+strconv.Itoa(x.srv.opts.MaxMessage)+" bytes", http.StatusRequestEntityTooLarge)
		} else {
			http.Error(x.w, "the request body could not be read", http.StatusBadRequest)
		}
		return
	}
	if batch := splitBatch(body); batch != nil {
		x.batch(batch)
		return
	}
	var failed *Error
	if x.m, failed = parse(body); failed != nil {
		x.fail(http.StatusBadRequest, failed)
		return
	}
	if identify := x.srv.opts.Events.Identify; identify != nil {
		x.identity = identify(x.r)
	}
	if isModern(x.r, x.m) {
		x.modern()
	} else {
		x.legacy()
	}
}

// exchange is one HTTP request and its response. Only the goroutine of the HTTP handler uses it.
type exchange struct {
	srv *Server
	w   http.ResponseWriter
	r   *http.Request
	rc  *http.ResponseController

	m         *message // empty unless the request is a POST
	principal string
	identity  string // permanent name of the client
}

// body reads the message and then removes the read deadline: if the deadline expired later, the
// client would appear to have disconnected.
func (x *exchange) body() ([]byte, error) {
	_ = x.rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	b, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, int64(x.srv.opts.MaxMessage)))
	_ = x.rc.SetReadDeadline(time.Time{})
	return b, err
}

// acceptsEvents reports whether the client accepts an event stream. If it does not, acceptsEvents
// responds with an error.
func (x *exchange) acceptsEvents() bool {
	ok := accepts(x.r, typeEvents)
	if !ok {
		http.Error(x.w, "the Accept header must include "+typeEvents, http.StatusNotAcceptable)
	}
	return ok
}

// reply sends one message as the response.
func (x *exchange) reply(status int, message []byte) {
	h := x.w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(message)))
	x.srv.deadline(x.rc)
	x.w.WriteHeader(status)
	_, _ = x.srv.writer(x.w).Write(message) // fails only if the client has disconnected
}

func (x *exchange) fail(status int, failed *Error) {
	x.reply(status, answer(x.m.id, nil, failed))
}

// shortenDeadline limits the time for a write that is in progress.
func (x *exchange) shortenDeadline() { _ = x.rc.SetWriteDeadline(time.Now().Add(drainTimeout)) }

// result answers a request that needs no Func.
func (x *exchange) result(from caller) {
	result, failed := x.srv.result(x.r.Context(), x.m, from)
	x.reply(http.StatusOK, answer(x.m.id, result, failed))
}

// modern handles a message of the modern era, which has no sessions.
func (x *exchange) modern() {
	m := x.m
	if m.id == nil || m.isAnswer() { // nothing to answer
		x.srv.receive(nil, m)
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	if failed := x.check(); failed != nil {
		x.fail(http.StatusBadRequest, failed)
		return
	}
	from := caller{version: mcp.ModernVersion, modern: true, principal: x.principal, identity: x.identity}
	switch {
	case !x.srv.offers(m.method, true):
		_, failed := x.srv.result(x.r.Context(), m, from)
		x.fail(http.StatusNotFound, failed)
	case m.method == mcp.MethodListen:
		x.listen()
	case m.method == mcp.MethodStreamEvents && x.srv.opts.Events.offered():
		x.streamEvents(x.r.Context(), from)
	case x.srv.fromMemory(m.method):
		x.result(from)
	default:
		x.runFunc(x.r.Context(), from, nil, func() {})
	}
}

// check validates the headers and _meta of a modern request. If several checks fail, it returns the
// most helpful error.
func (x *exchange) check() *Error {
	failed := cmp.Or(checkVersion(x.r, x.m), checkMeta(x.m), checkHeaders(x.r, x.m))
	if failed == nil && x.m.method == mcp.MethodCallTool {
		failed = x.srv.checkMirrored(x.r, x.m)
	}
	return failed
}

// runFunc handles a POST that requires a Func. The response is plain JSON, or an event stream if
// the Func sends a notification before it returns. If calls is not nil, the response is also an
// event stream when the Func takes longer than openAfter, and calls retains its events so that the
// client can resume it. parent is cancelled when the client cancels the request. done is called before the
// response is sent, after which the client may use the id of the request again.
func (x *exchange) runFunc(parent context.Context, from caller, calls *callStreams, done func()) {
	s := x.srv
	from.after = new(afterwards)
	defer from.after.run()
	slot := s.slots.Take(x.principal)
	defer slot.Give()
	select {
	case <-slot.Ready():
	case <-x.r.Context().Done():
		return
	case <-s.ctx.Done():
		x.fail(http.StatusServiceUnavailable, errorf(mcp.CodeInternal, "%s", errClosed))
		return
	case <-parent.Done():
		x.finish(x.answer(nil, errorf(mcp.CodeInternal, "%s", context.Cause(parent))), wasCancelled(parent))
		return
	}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errClosed) })()

	stream := &callStreamer{x: x, calls: calls, leave: func() {
		if from.modern {
			cancel(context.Canceled)
		}
	}}
	notes := newNotifier(ctx, stream.send)
	if accepts(x.r, typeEvents) {
		from.notes = notes
	}
	if calls != nil {
		defer time.AfterFunc(openAfter, stream.begin).Stop()
	}
	var result json.RawMessage
	failed := errorf(mcp.CodeInternal, "%s: internal error", x.m.method)
	defer func() { // also ends the stream of a Func that calls runtime.Goexit
		cancelled := wasCancelled(ctx)
		done()
		stream.end(x.answer(result, failed), cancelled)
	}()
	defer notes.close()
	result, failed = s.result(ctx, x.m, from)
}

// callStreamer answers a POST that runs a Func: with plain JSON or, once it has begun, with an event stream,
// which a goroutine then writes.
type callStreamer struct {
	x     *exchange
	calls *callStreams
	leave func() // called when the client has disconnected

	once sync.Once
	// The Func sends its notifications over notes to the goroutine. The channel is unbuffered, so that the Func
	// waits while the client does not read. It is never closed.
	notes    chan note
	left     chan struct{} // closed by the goroutine when it takes no more notes
	answered chan []byte   // receives the response from end, or nil if the client has cancelled the request
	over     chan struct{} // closed when the goroutine has ended
}

// begin begins the stream, unless the call is answered. It may be called again.
func (c *callStreamer) begin() {
	c.once.Do(func() {
		c.notes, c.left, c.answered, c.over = make(chan note), make(chan struct{}), make(chan []byte), make(chan struct{})
		go func() { // end waits for this goroutine
			defer close(c.over)
			c.run()
		}()
	})
}

// send sends a message of the Func to the client. It reports false if the client does not receive it.
func (c *callStreamer) send(ctx context.Context, message []byte) bool {
	c.begin()
	written := make(chan bool, 1)
	select {
	case c.notes <- note{message, written}:
		return <-written
	case <-c.left:
	case <-ctx.Done():
	}
	return false
}

// end answers the call. No send may be in progress.
func (c *callStreamer) end(r reply, cancelled bool) {
	c.once.Do(func() { c.x.finish(r, cancelled) })
	if c.answered == nil {
		return
	}
	if cancelled {
		r.message = nil
	}
	c.answered <- r.message
	<-c.over
}

// run writes the stream until the call is answered.
func (c *callStreamer) run() {
	stream := c.x.srv.newEventStream(c.x.w) // nil once the client has disconnected
	var call *callStream                    // the retained stream; nil if the client cannot resume it
	gone, notes := c.x.r.Context().Done(), c.notes
	number := 0 // number of the last event
	write := func(message []byte, last bool) error {
		id := ""
		if call != nil {
			if last {
				c.calls.end(call, message) // before the client has its response
			} else {
				call.add(message, false)
			}
			number++
			id = call.id(number, last)
		}
		if stream == nil {
			return nil
		}
		return stream.send(id, message)
	}
	err := stream.start()
	if err == nil && c.calls != nil {
		call = c.calls.begin(c.x.m.id)
		err = stream.prelude(call)
	}
	beats := time.Tick(c.x.srv.opts.Heartbeat)
	for {
		if err != nil && stream != nil {
			gone, stream = nil, nil
			if call == nil { // it cannot resume: drop later notifications
				close(c.left)
				notes = nil
			}
			c.leave()
		}
		err = nil
		select {
		case n := <-notes:
			err = write(n.message, false)
			n.written <- err == nil || call != nil // if call retains the event, the client can still receive it
		case <-beats:
			if stream != nil {
				err = stream.comment()
			}
		case <-gone:
			err = context.Cause(c.x.r.Context())
		case message := <-c.answered:
			if message != nil {
				_ = write(message, true) // fails only if the client has disconnected
			} else if call != nil {
				c.calls.end(call, nil)
			}
			return
		}
	}
}

// note is a message that a running Func sends to its client.
type note struct {
	message []byte
	// written receives one value: whether the message was written or is retained for a client that
	// resumes. It has capacity 1 and is never closed.
	written chan bool
}

// reply is a response and its HTTP status. The status is not used once a stream has started.
type reply struct {
	message []byte
	status  int
}

// answer encodes the response from a Func. Error responses have HTTP status 200, except for the one
// error that the specification maps to status 400.
func (x *exchange) answer(result json.RawMessage, failed *Error) reply {
	status := http.StatusOK
	if failed != nil && failed.Code == mcp.CodeMissingCapability {
		status = http.StatusBadRequest
	}
	return reply{answer(x.m.id, result, failed), status}
}

// finish writes the response to a request, unless the client has cancelled the request.
func (x *exchange) finish(r reply, cancelled bool) {
	if cancelled {
		x.srv.deadline(x.rc)
		x.w.WriteHeader(http.StatusAccepted)
		return
	}
	x.reply(r.status, r.message)
}

// eventStream writes events to one client. Only one goroutine at a time may use it.
type eventStream struct {
	srv *Server
	w   http.ResponseWriter
	out *eventstream.Writer
}

func (s *Server) newEventStream(w http.ResponseWriter) *eventStream {
	return &eventStream{srv: s, w: w, out: s.writer(w)}
}

// start sends the headers immediately, because clients wait for them before they read events.
func (e *eventStream) start() error {
	h := e.w.Header()
	h.Set("Content-Type", eventstream.ContentType)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // prevents nginx from buffering events
	h.Del("Content-Length")
	e.out.Extend()
	e.w.WriteHeader(http.StatusOK)
	return e.out.Flush()
}

// event writes one event without flushing it. id may be empty.
func (e *eventStream) event(id string, data []byte) error {
	_, err := e.out.Write(eventstream.Append(make([]byte, 0, len(data)+len(id)+40), id, eventstream.DefaultType, data))
	return err
}

// send writes and flushes one event.
func (e *eventStream) send(id string, data []byte) error {
	if err := e.event(id, data); err != nil {
		return err
	}
	return e.flush()
}

// prime sends an event with an id but no data, so that a client that loses the stream before the
// first message can resume it.
func (e *eventStream) prime(id string) error {
	if _, err := e.out.Write(eventstream.Append(nil, id, "", nil)); err != nil {
		return err
	}
	return e.flush()
}

func (e *eventStream) comment() error {
	if _, err := e.out.Write(eventstream.AppendComment(nil, "heartbeat")); err != nil {
		return err
	}
	return e.flush()
}

func (e *eventStream) flush() error { return e.out.Flush() }

// pusher returns a pusher that writes a subscriber's notifications to this stream. number returns
// the id for each event; it is nil if events have no id.
func (e *eventStream) pusher(sub *subscriptions.Subscriber, number func(subscriptions.Batch) string) *pusher {
	return &pusher{
		sub: sub, flush: e.flush, beat: e.comment, every: e.srv.opts.Heartbeat,
		send: func(_ context.Context, what subscriptions.Batch, message []byte) error {
			id := ""
			if number != nil {
				id = number(what)
			}
			return e.event(id, message)
		},
	}
}

// writer returns a writer that sets the server's write deadline before each part of a response.
func (s *Server) writer(w http.ResponseWriter) *eventstream.Writer {
	return eventstream.NewWriter(w, s.writeDeadline)
}

// writeDeadline returns the deadline for the next write. It is shorter while the server is closing.
func (s *Server) writeDeadline() time.Time {
	timeout := s.opts.WriteTimeout
	if s.ctx.Err() != nil {
		timeout = min(timeout, drainTimeout)
	}
	return time.Now().Add(timeout)
}

func (s *Server) deadline(rc *http.ResponseController) {
	_ = rc.SetWriteDeadline(s.writeDeadline()) // not all writers support deadlines
}
