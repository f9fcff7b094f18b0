package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// errDeadline is the cause of a request that its own limit ended.
var errDeadline = errors.New("no answer in time")

// request sends a request and returns its result. It ends with ctx, with the
// session, or after the request timeout, whichever is first.
func (s *Session) request(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	return s.send(ctx, s.tr, s.Info().version(), s.nextID(), method, params)
}

func (i Info) version() string { return i.ProtocolVersion }

// nextID makes a request id. Ids are strings: they can be confused neither with
// a server's own numeric ids nor, by TypeScript servers, with anything else.
func (s *Session) nextID() string { return "mcptrack-" + strconv.FormatInt(s.seq.Add(1), 10) }

// send is request on a certain transport, in a certain protocol version.
func (s *Session) send(ctx context.Context, tr transport.Interface, version, id, method string, params map[string]any) (json.RawMessage, error) {
	limit := s.requestTimeout()
	late := fmt.Errorf("%w (%s)", errDeadline, limit)
	if f := progressOf(ctx); f != nil {
		ctx, stop := s.watchProgress(ctx, id, f, limit, late)
		defer stop()
		return s.sendUnbounded(ctx, tr, version, id, method, withMeta(params, map[string]any{"progressToken": id}))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	return s.sendUnbounded(ctx, tr, version, id, method, params)
}

// sendUnbounded is for the one request that may wait for ever: a listen.
func (s *Session) sendUnbounded(ctx context.Context, tr transport.Interface, version, id, method string, params map[string]any) (json.RawMessage, error) {
	if s.ended() {
		return nil, s.Err()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()

	rid := mcp.NewRequestId(id)
	q := transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: rid, Method: method, Params: params}
	if mcp.IsModernProtocol(version) {
		var err error
		if q.Params, q.Header, err = s.modernise(version, method, params); err != nil {
			return nil, err
		}
	} else if params == nil {
		q.Params = nil
	}
	defer s.waiting.add(id, cancel)()
	x := new(exchange)
	resp, err := tr.SendRequest(withExchange(ctx, x), q)
	if err != nil || resp == nil { // the SSE transport returns neither when its stream breaks at the wrong moment
		if ctx.Err() != nil && !isAnswer(context.Cause(ctx)) {
			s.cancelRequest(tr, rid, method)
		}
		return nil, s.requestError(ctx, x, err)
	}
	if resp.Error == nil && x.failed() {
		return nil, s.requestError(ctx, x, nil) // a body that happens to be an object is no answer
	}
	if !resp.ID.IsNil() && resp.ID.String() != rid.String() {
		return nil, errors.New("the answer belongs to another request")
	}
	if resp.Error != nil {
		return nil, x.wrap(s.rpcError(resp.Error))
	}
	return resp.Result, s.checkResultType(method, resp.Result)
}

// modernise adds what 2026-07-28 wants in every request.
func (s *Session) modernise(version, method string, params map[string]any) (map[string]any, http.Header, error) {
	p := withMeta(params, map[string]any{
		mcp.MetaKeyProtocolVersion:    version,
		mcp.MetaKeyClientInfo:         s.client,
		mcp.MetaKeyClientCapabilities: struct{}{},
	})
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, nil, err
	}
	h := http.Header{}
	for k, v := range mcp.StandardHeaders(version, mcp.MCPMethod(method), raw) {
		h.Set(k, v)
	}
	if method == methodCall {
		for k, v := range s.mirrors.headers(raw) {
			h.Set(k, v)
		}
	}
	return p, h, nil
}

// flushPatience is how long somebody who gives up waits for the server to be told.
const flushPatience = 250 * time.Millisecond

// cancelRequest tells the server that nobody waits any more. In the modern era the
// closed request says so over HTTP, where in the legacy one it says nothing. A
// handshake cannot be cancelled. It returns when the notification is out, or after
// a moment: the caller may be about to leave.
func (s *Session) cancelRequest(tr transport.Interface, id mcp.RequestId, method string) {
	info := s.Info()
	_, http := tr.(*transport.StreamableHTTP)
	if http && info.Era != EraLegacy || method == methodInitialize || s.ended() {
		return
	}
	out := make(chan struct{}) // closed by the goroutine below
	defer func() {
		t := time.NewTimer(flushPatience)
		defer t.Stop()
		select {
		case <-out:
		case <-t.C:
		}
	}()
	if !s.wg.Go(func() {
		defer close(out)
		ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
		defer cancel()
		_ = tr.SendNotification(withExchange(ctx, new(exchange)), mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
			Method: "notifications/cancelled",
			Params: mcp.NotificationParams{AdditionalFields: map[string]any{"requestId": id, "reason": "no longer wanted"}},
		}})
	}) {
		close(out) // the session is closed, and the server knows
	}
}

// requestError makes an error that may be shown out of what went wrong.
func (s *Session) requestError(ctx context.Context, x *exchange, err error) error {
	switch {
	case s.ended() && ctx.Err() != nil:
		return s.endCause(err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case x.rpcError() != nil:
		return x.wrap(s.rpcError(x.rpcError()))
	case x.error() != nil:
		return x.error()
	case s.stdio && !s.waitEnd(ctx):
		return errConnectionLost
	case s.stdio:
		return s.Err()
	case err == nil:
		return errConnectionLost
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return errDeadline // the SSE transport has a timer and a text of its own
	}
	return cleanURLError(s.redact, err)
}

// cleanURLError makes an error of a library fit to be shown: those of net/http
// contain the URL, with everything that is in it.
func cleanURLError(r redactor, err error) error {
	if err == nil {
		return nil
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &transportError{r.text(err.Error()), err}
}

// waitEnd waits until the session knows why its stdio transport failed.
func (s *Session) waitEnd(ctx context.Context) bool {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-s.done:
	case <-ctx.Done():
	case <-t.C:
	}
	return s.ended()
}

// transportError is an error of a library, in words that may be shown.
type transportError struct {
	text string
	err  error
}

func (e *transportError) Error() string { return e.text }
func (e *transportError) Unwrap() error { return e.err }

var errConnectionLost = errors.New("the connection was lost")

func (s *Session) rpcError(e *mcp.JSONRPCErrorDetails) *RPCError {
	out := &RPCError{Code: e.Code, Message: s.redact.text(e.Message)}
	if e.Data != nil {
		if raw, err := json.Marshal(e.Data); err == nil && len(raw) <= 64<<10 {
			out.Data = raw
		}
	}
	return out
}

// checkResultType refuses results that are none. A missing type is complete.
func (s *Session) checkResultType(method string, raw json.RawMessage) error {
	var r struct {
		ResultType *string `json:"resultType"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("%s: malformed result: %w", method, err)
	}
	switch {
	case r.ResultType == nil || *r.ResultType == "complete":
		return nil
	case *r.ResultType == "input_required":
		return newInputRequired(s, method, raw)
	}
	return fmt.Errorf("%s: result of the unknown type %.40q", method, *r.ResultType)
}
