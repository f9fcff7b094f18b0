package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Config configures all connections of a session.
type Config struct {
	MaxLine int   // maximum bytes of one stdout line or event
	MaxBody int64 // maximum bytes of one HTTP body after decompression
	// Redact makes text from a server safe to show: one printable line of bounded length without
	// secrets.
	Redact func(string) string
	Logger *slog.Logger
	// WriteTimeout returns how long a server may take to read one message from stdin.
	WriteTimeout func() time.Duration
	// DialContext connects to a server over HTTP. If nil, a [net.Dialer] is used.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	Handler     Handler
}

// Handler contains the callbacks for notifications, requests and failures. They are called by the
// goroutines that read from the server, possibly concurrently.
type Handler struct {
	// Notification is called for each notification that is not passed to ClientMessage. It must not
	// retain its argument, which the connection reuses for the next notification.
	Notification func(*Notification)
	// Request answers a request from the server on behalf of the client. If nil, there is no
	// client, and the server receives an error. Each call runs on its own goroutine. ctx is done
	// when the server cancels the request or the connection ends. An [*RPCError] is sent unchanged.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Asked is called, in order, before Request is started. It must not block. May be nil.
	Asked func(method string)
	// ClientMessage is called, in order, for notifications that only a client can use (logs,
	// elicitation, tasks). If nil, they are passed to Notification.
	ClientMessage func(method string, params json.RawMessage)
	// Opened reports that the notification stream of Streamable HTTP was opened after
	// [Conn.Publish].
	Opened func()
	// Gap reports that notifications may have been lost, and why.
	Gap func(reason string)
	// Silent reports that no byte arrived on the notification stream for [StreamIdle], and whether
	// the stream was replaced. Notifications may have been lost, but the session and its
	// subscriptions are intact.
	Silent func(reason string)
	// Undecodable reports data that started like a message but is not JSON. It may have been a
	// notification.
	Undecodable func()
	// Lost reports that the connection ended without a call to Close. It is called at most once.
	// Requests in flight fail with the same error.
	Lost func(error)
}

// Conn is a connection to one server. Its methods are safe for concurrent use.
type Conn struct {
	cfg   Config
	stdio *stdioConn // nil over HTTP
	http  *httpConn  // nil over pipes
	// interrupted is set once a request has been cancelled, because the server may then have to
	// clean up.
	interrupted atomic.Bool

	ctx    context.Context // done when the connection ends
	cancel context.CancelFunc
	group  Group // all goroutines of the connection

	pending   pending
	inbound   inbound
	closeOnce sync.Once
	lost      chan struct{} // closed by end after it has set err

	mu  sync.Mutex // guards err
	err error      // why the connection ended; nil while it is open
}

func newConn(cfg Config) *Conn {
	c := &Conn{cfg: cfg, lost: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// SetProtocolVersion sets the protocol version that HTTP requests send in a header.
func (c *Conn) SetProtocolVersion(version string) {
	if c.http != nil {
		c.http.version.Store(version)
	}
}

// HTTP reports whether the connection uses Streamable HTTP.
func (c *Conn) HTTP() bool { return c.http != nil && !c.http.sse }

// outgoing is a request or, without an id, a notification.
type outgoing struct {
	JSONRPC string `json:"jsonrpc"`
	ID      ID     `json:"id,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

func encode(id ID, method string, params map[string]any) ([]byte, error) {
	m := outgoing{JSONRPC: "2.0", ID: id, Method: method}
	if params != nil {
		m.Params = params
	}
	return json.Marshal(m)
}

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params map[string]any) error {
	message, err := encode(0, method, params)
	if err != nil {
		return err
	}
	x := new(exchange)
	if c.stdio != nil {
		err = c.stdio.send(message)
	} else {
		err = c.http.deliver(ctx, message, x)
	}
	if err != nil {
		return c.requestError(ctx, x, err)
	}
	return nil
}

// reply sends the response to a request from the server. It does not wait until the server has read
// it.
func (c *Conn) reply(answer []byte) {
	if c.http != nil {
		c.postReply(answer)
		return
	}
	_ = c.stdio.send(answer)
}

// Err returns why the connection ended, or nil while it is open.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end records why the connection ended. It returns false if the connection had already ended.
func (c *Conn) end(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.err = err
	close(c.lost)
	return true
}

// fail ends the connection and all requests in flight.
func (c *Conn) fail(err error) {
	if c.end(err) {
		c.cfg.Handler.Lost(err)
		c.pending.failAll(err)
		c.cancel()
	}
}

// unknownPatience limits the wait for the responses to other requests in flight after the server
// has reported that it does not know the session.
const unknownPatience = 300 * time.Millisecond

// expire ends the connection because the server no longer knows the session. It first waits for the
// responses to requests in flight, because they decide whether each request can be retried.
func (c *Conn) expire(err error) {
	if !c.end(err) {
		return
	}
	finish := func() {
		c.cfg.Handler.Lost(err)
		c.pending.failAll(err)
		c.cancel()
	}
	if !c.group.Go(func() {
		if c.pending.waitEmpty(c.ctx, unknownPatience) == nil { // the connection was not closed meanwhile
			finish()
		}
	}) {
		finish()
	}
}

// Close ends the connection, and requests in flight fail with err. It returns once all goroutines,
// the child process and the connections to the server are gone. That takes a few seconds if the
// child process ignores every signal except SIGKILL.
func (c *Conn) Close(err error) {
	c.closeOnce.Do(func() {
		gone := c.Err() != nil
		if c.stdio != nil && !gone {
			c.stdio.stdin.flush(flushPatience) // a cancellation may be queued
		}
		c.end(err)
		c.pending.failAll(err)
		c.cancel()
		if c.http != nil {
			c.http.close(gone)
		} else {
			_ = c.stdio.stdin.Close()
			c.stdio.release(c.interrupted.Load())
		}
	})
	c.group.Wait()
}

// Request is one JSON-RPC request.
type Request struct {
	ID      ID // unique within the session
	Method  string
	Version string // protocol version: modern HTTP requests repeat parts of Params in headers
	Params  map[string]any
	// Announce sends notifications/cancelled if ctx ends before the response arrives.
	Announce bool
	// Alive is called, until Do returns, whenever bytes of the response arrive in an event stream. May be
	// nil.
	Alive func()
}

// Text returns a parameter that is a string, or an empty string.
func (q Request) Text(name string) (value string) {
	switch v := q.Params[name].(type) {
	case string:
		return v
	case json.RawMessage:
		_ = json.Unmarshal(v, &value) // stays empty if it is not a string
	}
	return value
}

// Do sends a request and returns its result. It sets no deadline. If ctx is done, the error is the
// cause of ctx; if the connection fails, it is an [*InterruptedError].
func (c *Conn) Do(ctx context.Context, q Request) (json.RawMessage, error) {
	x := &exchange{alive: q.Alive, id: q.ID}
	raw, err := c.do(ctx, q, x)
	if err != nil && ctx.Err() == nil {
		err = x.interrupted(err, c.stdio != nil)
	}
	return raw, err
}

func (c *Conn) do(ctx context.Context, q Request, x *exchange) (json.RawMessage, error) {
	f := flight{answer: make(chan answer, 1), cancel: func() {}}
	own := ctx
	if c.http != nil {
		// What follows the response in an event stream is read after Do has returned.
		own, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		defer context.AfterFunc(ctx, f.cancel)()
	}
	c.pending.add(q.ID, f)
	defer c.pending.take(q.ID)
	if err := c.Err(); err != nil {
		return nil, &InterruptedError{Err: err}
	}
	message, err := encode(q.ID, q.Method, q.Params)
	switch {
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case c.stdio != nil:
		err = c.stdio.send(message)
	default:
		err = c.http.request(own, q, message, f, x)
	}
	if err == nil {
		select {
		case a := <-f.answer:
			return a.result, a.err
		case <-ctx.Done():
		}
	}
	select {
	case a := <-f.answer: // a failure of the connection also ends the exchange
		return a.result, a.err
	default:
	}
	if q.Announce && ctx.Err() != nil && c.Err() == nil {
		c.announceCancel(q.ID)
	}
	return nil, c.requestError(ctx, x, err)
}

// announceCancel sends notifications/cancelled. It returns when the notification is sent or after a
// short wait, because the caller may be about to exit. Over HTTP it may have to travel far.
func (c *Conn) announceCancel(id ID) {
	c.interrupted.Store(true)
	patience := flushPatience
	if c.http != nil {
		patience = 2 * time.Second
	}
	out := make(chan struct{}) // closed by the goroutine below
	if !c.group.Go(func() {
		defer close(out)
		ctx, cancel := context.WithTimeout(c.ctx, 2*time.Second)
		defer cancel()
		_ = c.Notify(ctx, mcp.NotificationCancelled, map[string]any{"requestId": id, "reason": "no longer wanted"})
	}) {
		return // the server notices the closed connection
	}
	waitFor(out, new(struct{}), patience)
}

// requestError returns why a request failed with err, as an error that is safe to show.
func (c *Conn) requestError(ctx context.Context, x *exchange, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case x.err != nil:
		return x.err
	case c.stdio != nil && c.waitLost(ctx):
		return c.Err()
	case c.stdio != nil:
		return errConnectionLost
	}
	return c.cleanError(err)
}

// waitLost waits for the reason why a connection over pipes ended, which is known inputPatience after a failed
// write at the latest. It reports whether it is known.
func (c *Conn) waitLost(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, inputPatience+time.Second)
	defer cancel()
	select {
	case <-c.lost:
	case <-ctx.Done():
	}
	return c.Err() != nil
}

// rpcError returns the error of a response, and whether it is one as JSON-RPC specifies. Some servers
// send a text.
func (c *Conn) rpcError(raw json.RawMessage) (e *RPCError, proper bool) {
	e = new(RPCError)
	err := json.Unmarshal(raw, e)
	if err != nil {
		*e = RPCError{Code: mcp.CodeInternal}
		if json.Unmarshal(raw, &e.Message) != nil {
			e.Message = "malformed error response: " + string(raw)
		}
	}
	e.Message = c.cfg.Redact(e.Message)
	if len(e.Data) > maxErrorData || string(e.Data) == "null" {
		e.Data = nil
	}
	return e, err == nil && e.Code != 0
}

// cleanError makes an error safe to show, because errors from net/http may contain the URL, which may
// contain secrets.
func (c *Conn) cleanError(err error) error {
	if err == nil {
		return nil
	}
	text := printable.Reason(err, 0)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		text = "the connection was lost in the middle of the response"
	case errors.Is(err, io.EOF):
		text = "the server closed the connection without a response"
	}
	return &transportError{c.cfg.Redact(text), err}
}

// transportError is an error with a text that is safe to show to users.
type transportError struct {
	text string
	err  error
}

func (e *transportError) Error() string { return e.text }
func (e *transportError) Unwrap() error { return e.err }

var errConnectionLost = errors.New("the connection was lost")

// IsAnswer reports whether err is a response from the server, or reports that a response was too
// large.
func IsAnswer(err error) bool {
	_, ok := errors.AsType[*RPCError](err)
	_, tooLarge := errors.AsType[*TooLargeError](err)
	return ok || tooLarge
}

// pending tracks the requests in flight. The zero value is ready to use.
type pending struct {
	mu      sync.Mutex // guards flights
	flights map[ID]flight
}

// flight is a request in flight.
type flight struct {
	// answer receives the response, or why there is none, from whoever takes the flight. Capacity 1;
	// never closed.
	answer chan answer
	cancel func() // ends the HTTP request
}

// answer is the result of a request or, if err is not nil, why it has none.
type answer struct {
	result json.RawMessage
	err    error
}

// add registers a request. The caller must call take when the request ends.
func (p *pending) add(id ID, f flight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flights == nil {
		p.flights = map[ID]flight{}
	}
	p.flights[id] = f
}

// take removes a request, and returns it if it is in flight.
func (p *pending) take(id ID) (f flight, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok = p.flights[id]
	delete(p.flights, id)
	return f, ok
}

// fail makes a request fail if it is in flight.
func (p *pending) fail(id ID, err error) {
	if f, ok := p.take(id); ok {
		f.answer <- answer{err: err}
		f.cancel()
	}
}

// failAll makes all requests in flight fail.
func (p *pending) failAll(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, f := range p.flights {
		delete(p.flights, id)
		f.answer <- answer{err: err}
		f.cancel()
	}
}

// waitEmpty waits until no request is in flight, but no longer than atMost. If ctx is done, it
// returns the cause of ctx.
func (p *pending) waitEmpty(ctx context.Context, atMost time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	backoff.Poll(limited, 5*time.Millisecond, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.flights) == 0
	})
	return context.Cause(ctx)
}
