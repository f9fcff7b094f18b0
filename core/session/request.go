package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// Request is a request in its raw form, for a proxy that forwards what it received.
type Request struct {
	Method string
	// Params are sent unchanged, except for the members of _meta that the session sets: its own
	// progress token and, in the modern era, the client.
	Params map[string]json.RawMessage
	// Progress is called with the progress that the server reports. It is called by
	// the goroutine that reads from the server, one call at a time and none after Do
	// has returned, and must return at once. Nil: the server is not asked to report.
	Progress func(Progress)
	// Timeout is how long the server may be silent; see [WithProgress]. 0: the
	// request timeout of the server's entry.
	Timeout time.Duration
	// Client holds the capabilities of the client for which the request is made, a JSON
	// object; nil: it has none. A server of the modern era sees them, and may answer
	// with a result that is not complete: Do returns that as it is, and the client
	// answers by repeating the request. In the legacy era Client has no effect.
	Client json.RawMessage
}

// Do sends a request and returns the raw result; a notification, whose method begins with
// "notifications/", has no result. Errors are as for the other methods; an [*RPCError] is the
// server's, unchanged. When ctx ends, the request is cancelled on the server.
func (s *Session) Do(ctx context.Context, q Request) (json.RawMessage, error) {
	if strings.HasPrefix(q.Method, "notifications/") {
		var params map[string]any
		if q.Params != nil {
			params = rawParams(q.Params)
		}
		return nil, s.requests.conn.Notify(ctx, q.Method, params)
	}
	params := rawParams(q.Params)
	do := func() (json.RawMessage, error) {
		return s.requests.forward(ctx, q, params)
	}
	if q.Method == mcp.MethodCallTool {
		s.learnTools(ctx)
		return s.withToolHeaders(ctx, do)
	}
	return do()
}

func rawParams(raw map[string]json.RawMessage) map[string]any {
	params := make(map[string]any, len(raw))
	for name, value := range raw {
		params[name] = value
	}
	return params
}

// requester sends the requests of a session.
type requester struct {
	session  *Session
	client   mcp.Implementation
	timeout  atomic.Int64 // timeout of one request, in nanoseconds
	seq      atomic.Int64 // the number of the last request id
	progress progressWatch
	declared any // the capabilities declared if there is no client behind the session

	conn *wire.Conn // set when the handshake is complete
}

// capabilities returns those of the client behind the session, or, if there is none,
// capabilities without a user, model or roots to ask.
func (r *requester) capabilities() any {
	if c := r.session.opts.Client; c != nil && c.Capabilities != nil {
		return c.Capabilities
	}
	return r.declared
}

func (r *requester) requestTimeout() time.Duration { return time.Duration(r.timeout.Load()) }

// request sends a request and returns its result. It ends when ctx or the session does, or
// after the request timeout, whichever is first.
func (r *requester) request(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	return r.bounded(ctx, method, params, limits{progress: progressOf(ctx)})
}

// bounded sends a request within limits.
func (r *requester) bounded(ctx context.Context, method string, params map[string]any, l limits) (json.RawMessage, error) {
	id := r.nextID()
	ctx, stop := r.bound(ctx, id, l)
	defer stop()
	if l.progress != nil {
		params = withMeta(params, map[string]any{"progressToken": id})
	}
	return r.send(ctx, r.conn, r.session.Info().ProtocolVersion, id, method, params)
}

// forward sends a request on behalf of a client.
func (r *requester) forward(ctx context.Context, q Request, params map[string]any) (json.RawMessage, error) {
	l := limits{q.Timeout, q.Progress}
	if q.Client == nil || r.session.Info().Era != EraModern {
		return r.bounded(ctx, q.Method, params, l)
	}
	id := r.nextID()
	ctx, stop := r.bound(ctx, id, l)
	defer stop()
	if l.progress != nil {
		params = withMeta(params, map[string]any{"progressToken": id})
	}
	out := r.prepare(r.conn, r.session.Info().ProtocolVersion, id, q.Method, params)
	out.Params = withMeta(out.Params, map[string]any{mcp.MetaClientCapabilities: q.Client})
	return r.exchange(ctx, r.conn, out)
}

// nextID returns a new request id. Ids are strings: nothing can confuse them with the numeric
// ids of a server's own requests.
func (r *requester) nextID() string { return "mcptrack-" + strconv.FormatInt(r.seq.Add(1), 10) }

// send sends a request over the given connection in the given protocol version. Only ctx bounds
// it: handshakes and listens have limits of their own.
func (r *requester) send(ctx context.Context, conn *wire.Conn, version, id, method string, params map[string]any) (json.RawMessage, error) {
	return r.do(ctx, conn, r.prepare(conn, version, id, method, params))
}

// prepare adds the members of _meta that the era requires in every request.
func (r *requester) prepare(conn *wire.Conn, version, id, method string, params map[string]any) wire.Request {
	q := wire.Request{ID: id, Method: method, Version: version, Params: params, Announce: method != mcp.MethodInitialize}
	if version == mcp.ModernVersion {
		q.Params = withMeta(params, map[string]any{
			mcp.MetaProtocolVersion:    version,
			mcp.MetaClientInfo:         r.client,
			mcp.MetaClientCapabilities: r.capabilities(),
		})
	}
	if conn.HTTP() && r.session.Info().Era != EraLegacy {
		q.Announce = false // closing the HTTP request cancels it
	}
	return q
}

func (r *requester) do(ctx context.Context, conn *wire.Conn, q wire.Request) (json.RawMessage, error) {
	raw, err := r.exchange(ctx, conn, q)
	if err != nil {
		if r.session.opts.OneShot && errors.Is(err, errDeadline) {
			err = conn.WithOutput(err) // it concerns this request, or the start
		}
		return nil, err
	}
	return raw, r.checkResultType(q.Method, raw)
}

// exchange sends a request and returns its result, whatever its resultType.
func (r *requester) exchange(ctx context.Context, conn *wire.Conn, q wire.Request) (json.RawMessage, error) {
	if err := r.session.Err(); err != nil {
		return nil, &InterruptedError{Err: err}
	}
	raw, err := conn.Do(ctx, q)
	if rpc, ok := errors.AsType[*RPCError](err); ok && rpc.Code == mcp.CodeUnsupportedVersion && r.session.Info().Era == EraModern {
		// The server is another one now. The next session will find out what it speaks.
		end := &EndError{Reason: "the server no longer supports the protocol version " + mcp.ModernVersion, ExitCode: -1, Err: err}
		r.session.end(end)
		return nil, &InterruptedError{Err: end}
	}
	return raw, err
}

// withMeta returns the params with more members in _meta.
func withMeta(params map[string]any, members map[string]any) map[string]any {
	p := make(map[string]any, len(params)+1)
	maps.Copy(p, params)
	meta := map[string]any{}
	switch old := params["_meta"].(type) {
	case map[string]any:
		maps.Copy(meta, old)
	case json.RawMessage:
		var raw map[string]json.RawMessage
		_ = json.Unmarshal(old, &raw) // if it is not an object, there is nothing to keep
		for name, value := range raw {
			meta[name] = value
		}
	}
	maps.Copy(meta, members)
	p["_meta"] = meta
	return p
}

// checkResultType refuses results of an unknown resultType. Without one, a result is complete.
func (r *requester) checkResultType(method string, raw json.RawMessage) error {
	var result struct {
		ResultType *string `json:"resultType"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return fmt.Errorf("%s: malformed result: %w", method, err)
	}
	switch {
	case result.ResultType == nil || *result.ResultType == "complete":
		return nil
	case *result.ResultType == "input_required":
		return newInputRequired(r.session.redact, method, raw)
	}
	return fmt.Errorf("%s: result of the unknown type %.40q", method, *result.ResultType)
}
