package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
)

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
		err = x.interrupted(err, c.stdio)
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
		return nil, x.wrap(rpcError(c.cfg.Redact, resp.Error))
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
		return x.wrap(rpcError(c.cfg.Redact, x.rpcError()))
	case x.error() != nil:
		return x.error()
	case c.stdio && c.waitLost(ctx):
		return c.Err()
	case c.stdio || err == nil:
		return errConnectionLost
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done() // the SSE transport has a timer and an error of its own
		return context.Cause(ctx)
	}
	return cleanError(c.cfg.Redact, err)
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

func rpcError(redact func(string) string, e *sdk.JSONRPCErrorDetails) *RPCError {
	out := &RPCError{Code: e.Code, Message: redact(e.Message)}
	if e.Data != nil {
		if raw, err := json.Marshal(e.Data); err == nil && len(raw) <= maxErrorData {
			out.Data = raw
		}
	}
	return out
}

// cleanError makes an error of a library fit to be shown: errors of net/http contain the
// URL, with any secrets in it.
func cleanError(redact func(string) string, err error) error {
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
	return &transportError{redact(text), err}
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
