package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Config configures all connections of a session.
type Config struct {
	MaxLine int   // maximum bytes of one stdout line or event
	MaxBody int64 // maximum bytes of one HTTP body after decompression
	// Redact makes text from a server or library safe to show: one printable line of bounded length
	// without secrets.
	Redact func(string) string
	// Logger also receives the library's log records, so it must redact secrets.
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
	stdio *stdioConn          // nil over HTTP
	tr    transport.Interface // nil over pipes
	http  *httpConn           // nil over pipes
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

// attach makes tr the transport of the connection.
func (c *Conn) attach(tr transport.Interface) {
	c.tr = tr
	tr.SetNotificationHandler(func(n sdk.JSONRPCNotification) {
		// receive did not recognise this notification, because its method is written with escape
		// sequences.
		if data, err := json.Marshal(n); err == nil {
			c.receive(new(scratch), data)
		}
	})
}

// SetProtocolVersion sets the protocol version that HTTP requests send in a header.
func (c *Conn) SetProtocolVersion(version string) {
	if h, ok := c.tr.(transport.HTTPConnection); ok {
		h.SetProtocolVersion(version)
	}
	if c.http != nil {
		c.http.version.Store(version)
	}
}

// HTTP reports whether the connection uses Streamable HTTP.
func (c *Conn) HTTP() bool { return c.http != nil && !c.http.sse }

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params map[string]any) error {
	x := new(exchange)
	n := sdk.JSONRPCNotification{JSONRPC: sdk.JSONRPC_VERSION,
		Notification: sdk.Notification{Method: method, Params: sdk.NotificationParams{AdditionalFields: params}}}
	var err error
	if c.stdio != nil {
		err = c.stdio.send(n)
	} else {
		err = c.tr.SendNotification(withExchange(ctx, x), n)
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
	_, _ = c.stdio.stdin.Write(append(answer, '\n'))
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
		switch {
		case c.http != nil:
			c.http.guard.close(gone)
		case c.stdio != nil && !gone:
			c.stdio.stdin.flush(flushPatience) // a cancellation may be queued
		}
		c.end(err)
		c.pending.failAll(err)
		c.cancel()
		if c.http != nil {
			_ = c.tr.Close()
			c.http.dialer.Close()
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
	// Alive is called by the reading goroutine whenever bytes of the response arrive in an event
	// stream. May be nil.
	Alive func()
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := flight{cancel: cancel}
	if c.stdio != nil {
		f.answer = make(chan *transport.JSONRPCResponse, 1)
	}
	defer c.pending.add(q.ID, f)()
	if err := c.Err(); err != nil {
		return nil, &InterruptedError{Err: err}
	}
	id := sdk.NewRequestId(int64(q.ID))
	out := transport.JSONRPCRequest{JSONRPC: sdk.JSONRPC_VERSION, ID: id, Method: q.Method}
	if q.Params != nil {
		out.Params = q.Params
	}
	if c.http != nil && q.Version == mcp.ModernVersion {
		var err error
		if out.Header, err = c.http.headersFor(q); err != nil {
			return nil, err
		}
	}
	var resp *transport.JSONRPCResponse
	var err error
	if c.stdio != nil {
		resp, err = c.stdio.request(ctx, out, f.answer)
	} else {
		resp, err = c.tr.SendRequest(withExchange(ctx, x), out)
	}
	switch {
	case err != nil || resp == nil: // the SSE transport can return neither if its stream breaks
		if q.Announce && ctx.Err() != nil && c.Err() == nil && !IsAnswer(context.Cause(ctx)) {
			c.announceCancel(id)
		}
		return nil, c.requestError(ctx, x, err)
	case x.failed():
		return nil, c.requestError(ctx, x, nil) // the library mistakes any object with a member "error" for a response
	case !resp.ID.IsNil() && resp.ID.String() != id.String():
		return nil, errors.New("the response belongs to another request")
	case resp.Error != nil:
		return nil, c.rpcError(resp.Error)
	}
	return resp.Result, nil
}

// announceCancel sends notifications/cancelled. It returns when the notification is sent or after a
// short wait, because the caller may be about to exit. Over HTTP it may have to travel far.
func (c *Conn) announceCancel(id sdk.RequestId) {
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

// requestError returns why a request failed, as an error that is safe to show. err is the library's
// error, which is often less specific than x or the connection's error.
func (c *Conn) requestError(ctx context.Context, x *exchange, err error) error {
	x.oauthRefused(c.cfg.Redact)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case x.rpcError() != nil:
		return x.wrap(c.rpcError(x.rpcError()))
	case x.error() != nil:
		return x.error()
	case c.stdio != nil && c.waitLost(ctx):
		return c.Err()
	case c.stdio != nil || err == nil:
		return errConnectionLost
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // the SSE transport has its own timer and error
		return context.Cause(ctx)
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

func (c *Conn) rpcError(e *sdk.JSONRPCErrorDetails) *RPCError {
	out := &RPCError{Code: e.Code, Message: c.cfg.Redact(e.Message)}
	if e.Data != nil {
		if raw, err := json.Marshal(e.Data); err == nil && len(raw) <= maxErrorData {
			out.Data = raw
		}
	}
	return out
}

// cleanError makes a library's error safe to show, because errors from net/http contain the URL,
// which may contain secrets.
func (c *Conn) cleanError(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(printable.Reason(err, 0), "failed to send request: ", "") // the library adds it
	if _, malformed := errors.AsType[*json.SyntaxError](err); malformed {
		text = "the response is not JSON"
	}
	if strings.HasPrefix(text, "response should contain RPC id") { // and the library quotes it
		text = "the response has no id"
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		text = "the connection was lost in the middle of the response"
	case errors.Is(err, io.EOF):
		text = "the server closed the connection without a response"
	}
	return &transportError{c.cfg.Redact(text), err}
}

// transportError is a library's error with a text that is safe to show to users.
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
	mu      sync.Mutex // guards the fields below
	flights map[ID]flight
	err     error // error for all later requests; nil if they may start
}

// flight is a request in flight.
type flight struct {
	cancel context.CancelCauseFunc // makes it fail
	// answer receives the response over pipes. Capacity 1; never closed.
	answer chan *transport.JSONRPCResponse
}

// add registers a request. The caller must call remove when the request ends.
func (p *pending) add(id ID, f flight) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		f.cancel(p.err)
		return func() {}
	}
	if p.flights == nil {
		p.flights = map[ID]flight{}
	}
	p.flights[id] = f
	return func() { p.take(id) }
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
		f.cancel(err)
	}
}

// failAll makes all requests in flight, and all later ones, fail.
func (p *pending) failAll(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	for _, f := range p.flights {
		f.cancel(p.err)
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
