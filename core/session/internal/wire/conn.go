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

// Config is the configuration that all connections of a session share.
type Config struct {
	MaxLine int   // bytes of one line of stdout, or of one event of a stream
	MaxBody int64 // bytes of one HTTP body after decompression
	// Redact makes a text from a server or a library fit to be shown: one printable line
	// of bounded length without secrets.
	Redact func(string) string
	// Logger gets the log records of the library, too: it must redact them.
	Logger *slog.Logger
	// WriteTimeout returns how long a server on stdio may take to read one message.
	WriteTimeout func() time.Duration
	// DialContext connects to a server over HTTP; nil: a [net.Dialer].
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	Handler     Handler
}

// Handler receives notifications, requests and failures. Goroutines that read from the server
// call the functions, possibly several at a time.
type Handler struct {
	// Notification is called for each notification that Client does not get. It must not
	// keep the value: the connection uses it again for the next one.
	Notification func(*Notification)
	// Request answers a request of the server as its client; nil: there is no client, and the
	// server gets an error. Each call has its own goroutine. ctx ends when the server cancels the
	// request or the connection ends. The server gets an [*RPCError] unchanged.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// ClientMessage is called for the notifications that only a client can use (logs,
	// elicitation, tasks), in order; nil: they are passed to Notification.
	ClientMessage func(method string, params json.RawMessage)
	// Opened reports that the notification stream of Streamable HTTP was opened
	// after [Conn.Publish].
	Opened func()
	// Gap reports that notifications may have been lost, and why.
	Gap func(reason string)
	// Silent reports that no byte came on the notification stream for [StreamIdle], and
	// whether the stream was replaced. Notifications sent meanwhile may be lost, but the
	// session and its subscriptions are intact.
	Silent func(reason string)
	// Undecodable reports data that began like a message but is not JSON: it may have been a
	// notification.
	Undecodable func()
	// Lost reports that the connection ended without Close; it is called at most once.
	// Requests in flight fail with the same error.
	Lost func(error)
}

// Conn is a connection to one server. Its methods may be called from several
// goroutines.
type Conn struct {
	cfg   Config
	tr    transport.Interface
	stdio *stdioConn // nil over HTTP
	http  *httpConn  // nil over pipes
	// interrupted is set when a request was cancelled at the server, which may have to clean
	// up after it.
	interrupted atomic.Bool

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	group  Group // every goroutine of the connection

	pending   pending
	inbound   inbound
	closeOnce sync.Once
	lost      chan struct{} // closed by end, after err was set

	mu  sync.Mutex // guards err
	err error      // why the connection is over; nil: it is not
}

func newConn(cfg Config) *Conn {
	c := &Conn{cfg: cfg, lost: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// attach connects the transport to the connection.
func (c *Conn) attach(tr transport.Interface) {
	c.tr = tr
	tr.SetNotificationHandler(func(n sdk.JSONRPCNotification) {
		// receive did not recognise this notification, as it spells "method" with escapes.
		if data, err := json.Marshal(n); err == nil {
			c.receive(new(scratch), data)
		}
	})
}

// SetProtocolVersion sets the version that requests over HTTP name in a header.
func (c *Conn) SetProtocolVersion(version string) {
	if h, ok := c.tr.(transport.HTTPConnection); ok {
		h.SetProtocolVersion(version)
	}
	if c.http != nil {
		c.http.version.Store(version)
	}
}

// HTTP reports whether the connection is one of Streamable HTTP.
func (c *Conn) HTTP() bool { return c.http != nil && !c.http.sse }

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params map[string]any) error {
	x := new(exchange)
	err := c.tr.SendNotification(withExchange(ctx, x), sdk.JSONRPCNotification{JSONRPC: sdk.JSONRPC_VERSION,
		Notification: sdk.Notification{Method: method, Params: sdk.NotificationParams{AdditionalFields: params}}})
	if err != nil {
		return c.requestError(ctx, x, err)
	}
	return nil
}

// reply sends the answer to a request of the server. It does not wait until the server reads it.
func (c *Conn) reply(answer []byte) {
	if c.http != nil {
		c.postReply(answer)
		return
	}
	_, _ = c.stdio.stdin.Write(append(answer, '\n'))
}

// Err returns why the connection is over, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end records why the connection is over. It reports false if it was over before.
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

// fail ends the connection and every request in flight.
func (c *Conn) fail(err error) {
	if c.end(err) {
		c.cfg.Handler.Lost(err)
		c.pending.failAll(err)
		c.cancel()
	}
}

// unknownPatience is how long the connection waits for the answers to other requests in
// flight when the server answers one of them that it does not know the session.
const unknownPatience = 300 * time.Millisecond

// expire ends the connection because the server does not know the session any more. It first
// lets requests in flight get their own answers, because these decide whether each can be
// repeated.
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
		if c.pending.waitEmpty(c.ctx, unknownPatience) == nil { // not closed meanwhile
			finish()
		}
	}) {
		finish()
	}
}

// Close ends the connection; requests in flight fail with err. It returns once all
// goroutines, the child process and the connections to the server are gone. For a
// child that ignores everything but SIGKILL that takes a few seconds.
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
		_ = c.tr.Close()
		if c.http != nil {
			c.http.dialer.Close()
		}
		if c.stdio != nil {
			c.stdio.release(c.interrupted.Load())
		}
	})
	c.group.Wait()
}

// Request is one JSON-RPC request.
type Request struct {
	ID      string // unique within the connection
	Method  string
	Version string // of the protocol: modern requests over HTTP repeat parts of Params in headers
	Params  map[string]any
	// Announce sends notifications/cancelled if ctx ends before the answer came.
	Announce bool
	// Alive is called whenever bytes of the answer arrive as an event stream, by the
	// goroutine that reads them; nil: not called.
	Alive func()
}

// Do sends a request and returns its result. It has no deadline of its own. When ctx
// ends, the error is its cause; when the connection fails, an [*InterruptedError].
func (c *Conn) Do(ctx context.Context, q Request) (json.RawMessage, error) {
	x := &exchange{alive: q.Alive}
	raw, err := c.do(ctx, q, x)
	if err != nil && ctx.Err() == nil {
		err = x.interrupted(err, c.stdio != nil)
	}
	return raw, err
}

func (c *Conn) do(ctx context.Context, q Request, x *exchange) (json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.pending.add(q.ID, cancel)()
	if err := c.Err(); err != nil {
		return nil, &InterruptedError{Err: err}
	}
	id := sdk.NewRequestId(q.ID)
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
	resp, err := c.tr.SendRequest(withExchange(ctx, x), out)
	switch {
	case err != nil || resp == nil: // the SSE transport returns neither when its stream breaks at the wrong moment
		if q.Announce && ctx.Err() != nil && c.Err() == nil && !IsAnswer(context.Cause(ctx)) {
			c.announceCancel(id)
		}
		return nil, c.requestError(ctx, x, err)
	case resp.Error == nil && x.failed():
		return nil, c.requestError(ctx, x, nil) // a body that happens to be an object is not an answer
	case !resp.ID.IsNil() && resp.ID.String() != id.String():
		return nil, errors.New("the response belongs to another request")
	case resp.Error != nil:
		return nil, x.wrap(c.rpcError(resp.Error))
	}
	return resp.Result, nil
}

// announceCancel sends notifications/cancelled. It returns when the notification is
// out, or after a moment: the caller may be about to leave.
func (c *Conn) announceCancel(id sdk.RequestId) {
	c.interrupted.Store(true)
	out := make(chan struct{}) // closed by the goroutine below
	if !c.group.Go(func() {
		defer close(out)
		ctx, cancel := context.WithTimeout(c.ctx, 2*time.Second)
		defer cancel()
		_ = c.Notify(ctx, mcp.NotificationCancelled, map[string]any{"requestId": id, "reason": "no longer wanted"})
	}) {
		return // the connection is closed, and the server knows
	}
	t := time.NewTimer(flushPatience)
	defer t.Stop()
	select {
	case <-out:
	case <-t.C:
	}
}

// requestError returns why a request failed, as an error that may be shown. err is what the
// library returned, which often says less than x or the connection.
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
		<-ctx.Done() // the SSE transport has a timer and an error of its own
		return context.Cause(ctx)
	}
	return c.cleanError(err)
}

// waitLost waits a moment until it is known why a connection over pipes ended. It reports
// whether it is.
func (c *Conn) waitLost(ctx context.Context) bool {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-c.lost:
		return true
	case <-ctx.Done():
	case <-t.C:
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

// cleanError makes an error of a library fit to be shown: errors of net/http contain the
// URL, with any secrets in it.
func (c *Conn) cleanError(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(printable.Reason(err, 0), "failed to send request: ", "") // the library adds it
	if _, malformed := errors.AsType[*json.SyntaxError](err); malformed {
		text = "the response is not JSON"
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		text = "the connection was lost in the middle of the response"
	case errors.Is(err, io.EOF):
		text = "the server closed the connection without a response"
	}
	return &transportError{c.cfg.Redact(text), err}
}

// transportError is an error of a library with a text that may be shown.
type transportError struct {
	text string
	err  error
}

func (e *transportError) Error() string { return e.text }
func (e *transportError) Unwrap() error { return e.err }

var errConnectionLost = errors.New("the connection was lost")

// IsAnswer reports whether err is an answer of the server, or says that one came and was too
// large.
func IsAnswer(err error) bool {
	_, ok := errors.AsType[*RPCError](err)
	_, tooLarge := errors.AsType[*TooLargeError](err)
	return ok || tooLarge
}

// pending holds the requests in flight, each with the function that fails it. The zero
// value is ready.
type pending struct {
	mu     sync.Mutex                         // guards what follows
	cancel map[string]context.CancelCauseFunc // by request id
	err    error                              // fails every later request; nil: none
}

// add registers a request; the caller calls remove once it is over.
func (p *pending) add(id string, cancel context.CancelCauseFunc) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		cancel(p.err)
		return func() {}
	}
	if p.cancel == nil {
		p.cancel = map[string]context.CancelCauseFunc{}
	}
	p.cancel[id] = cancel
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.cancel, id)
	}
}

// fail ends a request, if it is in flight.
func (p *pending) fail(id string, err error) {
	p.mu.Lock()
	cancel := p.cancel[id]
	p.mu.Unlock()
	if cancel != nil {
		cancel(err)
	}
}

// failAll ends all requests in flight, and those that would come later.
func (p *pending) failAll(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	for _, cancel := range p.cancel {
		cancel(p.err)
	}
}

// waitEmpty waits until no request is in flight or atMost is over. The error is the cause
// of ctx, if ctx has ended.
func (p *pending) waitEmpty(ctx context.Context, atMost time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	backoff.Poll(limited, 5*time.Millisecond, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.cancel) == 0
	})
	return context.Cause(ctx)
}
