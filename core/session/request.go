package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// Request is a raw request, for a proxy that forwards what it received.
type Request struct {
	Method string
	// Params are sent unchanged, except for members of _meta that the session sets: its progress
	// token and, in the modern era, the client.
	Params map[string]json.RawMessage
	// Progress is called for each progress report, one call at a time and never after Do returns,
	// by the goroutine that reads from the server; it must not block. Nil: the server is not asked
	// to report.
	Progress func(Progress)
	// Timeout is how long the server may be silent; see [WithProgress]. 0: the request timeout of
	// the server's entry.
	Timeout time.Duration
	// Client holds the capabilities of the client that makes the request, as a JSON object; nil: it
	// has none. A modern server sees them and may answer with an incomplete result: Do returns it
	// unchanged, and the client answers by repeating the request. In the legacy era, Client has no
	// effect.
	Client json.RawMessage
}

// Do sends a request and returns the raw result. A notification, whose method begins with
// "notifications/", has no result. Errors are the same as for the other methods; an [*RPCError] is
// the server's, unchanged. When ctx ends, the request is cancelled on the server.
func (s *Session) Do(ctx context.Context, q Request) (json.RawMessage, error) {
	if strings.HasPrefix(q.Method, "notifications/") {
		var params map[string]any
		if q.Params != nil {
			params = rawParams(q.Params)
		}
		return nil, s.conn.Notify(ctx, q.Method, params)
	}
	params := rawParams(q.Params)
	do := func() (json.RawMessage, error) {
		return s.bounded(ctx, q.Method, params, limits{q.Timeout, q.Progress}, q.Client)
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

func (s *Session) requestTimeout() time.Duration { return time.Duration(s.timeout.Load()) }

// request sends a request and returns its result. It ends when ctx or the session ends, or after
// the request timeout.
func (s *Session) request(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	return s.bounded(ctx, method, params, limits{progress: progressOf(ctx)}, nil)
}

// bounded sends a request within limits. client holds the capabilities of the client that makes it:
// a modern server may then answer with an incomplete result. nil: there is no client.
func (s *Session) bounded(ctx context.Context, method string, params map[string]any, l limits, client json.RawMessage) (json.RawMessage, error) {
	id, info := s.nextID(), s.Info()
	ctx, stop := s.bound(ctx, id, l)
	defer stop()
	if l.progress != nil {
		params = withMeta(params, map[string]any{"progressToken": id})
	}
	q := s.prepare(s.conn, info.ProtocolVersion, id, method, params)
	if client == nil || info.Era != EraModern {
		return s.do(ctx, s.conn, q)
	}
	q.Params = withMeta(q.Params, map[string]any{mcp.MetaClientCapabilities: client})
	return s.exchange(ctx, s.conn, q)
}

// nextID returns a new request id. Ids are strings, so nothing can confuse them with the numeric
// ids of a server's own requests.
func (s *Session) nextID() string { return "mcptrack-" + strconv.FormatInt(s.seq.Add(1), 10) }

// send sends a request over conn in the given protocol version. Only ctx bounds it: handshakes and
// listens have their own limits.
func (s *Session) send(ctx context.Context, conn *wire.Conn, version, id, method string, params map[string]any) (json.RawMessage, error) {
	return s.do(ctx, conn, s.prepare(conn, version, id, method, params))
}

// prepare adds the members of _meta that the era requires in every request.
func (s *Session) prepare(conn *wire.Conn, version, id, method string, params map[string]any) wire.Request {
	q := wire.Request{ID: id, Method: method, Version: version, Params: params, Announce: method != mcp.MethodInitialize}
	if version == mcp.ModernVersion {
		q.Params = withMeta(params, map[string]any{
			mcp.MetaProtocolVersion:    version,
			mcp.MetaClientInfo:         s.client,
			mcp.MetaClientCapabilities: s.capabilities,
		})
	}
	if conn.HTTP() && s.Info().Era != EraLegacy {
		q.Announce = false // closing the HTTP request cancels it
	}
	return q
}

func (s *Session) do(ctx context.Context, conn *wire.Conn, q wire.Request) (json.RawMessage, error) {
	raw, err := s.exchange(ctx, conn, q)
	if err != nil {
		if s.opts.OneShot && errors.Is(err, errDeadline) {
			err = conn.WithOutput(err) // the output concerns this request or the start
		}
		return nil, err
	}
	return raw, s.checkResultType(q.Method, raw)
}

// exchange sends a request and returns its result, whatever its resultType.
func (s *Session) exchange(ctx context.Context, conn *wire.Conn, q wire.Request) (json.RawMessage, error) {
	if err := s.Err(); err != nil {
		return nil, &InterruptedError{Err: err}
	}
	raw, err := conn.Do(ctx, q)
	if rpc, ok := errors.AsType[*RPCError](err); ok && rpc.Code == mcp.CodeUnsupportedVersion && s.Info().Era == EraModern {
		// The server was replaced. The next session finds out which version it speaks.
		end := &EndError{Reason: "the server no longer supports the protocol version " + mcp.ModernVersion, ExitCode: -1, Err: err}
		s.end(end)
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
		_ = json.Unmarshal(old, &raw) // not an object: nothing to keep
		for name, value := range raw {
			meta[name] = value
		}
	}
	maps.Copy(meta, members)
	p["_meta"] = meta
	return p
}

// checkResultType rejects results of an unknown resultType. Without resultType, a result is
// complete.
func (s *Session) checkResultType(method string, raw json.RawMessage) error {
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
		return newInputRequired(s.redact, method, raw)
	}
	return fmt.Errorf("%s: unknown resultType %.40q", method, *result.ResultType)
}

// maxExtended bounds how long progress reports can extend a request.
const maxExtended = time.Hour

// Progress is the content of a notifications/progress.
type Progress struct {
	Progress float64 // finite
	Total    float64 // 0: unknown
	Message  string  // hostile, like everything from a server
}

type progressKey struct{}

// WithProgress asks the server for progress reports on requests made with the returned context; it
// may send none. The goroutine that reads from the server calls f, one call at a time and never
// after the request returns; f must not block.
//
// A report extends the request: it fails once the server has been silent for the request timeout,
// and in any case after an hour (or the request timeout, if that is longer).
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

func progressOf(ctx context.Context) func(Progress) {
	f, _ := ctx.Value(progressKey{}).(func(Progress))
	return f
}

// limits bound one request.
type limits struct {
	silence  time.Duration  // how long the server may be silent; 0: the request timeout
	progress func(Progress) // called for each report; may be nil
}

// bound returns the context of a request. It ends when the server was silent for too long, and
// after maxExtended at the latest: progress reports must not keep a request alive for ever. This is
// the only policy for timeouts and progress; see [WithProgress]. The caller calls stop when the
// request ends.
func (s *Session) bound(ctx context.Context, id string, l limits) (_ context.Context, stop func()) {
	silence := cmp.Or(max(l.silence, 0), s.requestTimeout())
	late := fmt.Errorf("%w (%s)", errDeadline, silence)
	if l.progress == nil {
		return context.WithTimeoutCause(ctx, silence, late)
	}
	longest := max(maxExtended, silence)
	ctx, cancelLongest := context.WithTimeoutCause(ctx, longest, fmt.Errorf("%w (%s, with progress)", errDeadline, longest))
	ctx, cancel := context.WithCancelCause(ctx)
	idle := time.AfterFunc(silence, func() { cancel(late) })
	first, last := true, 0.0
	remove := s.progress.add(id, func(p Progress) {
		if !first && p.Progress <= last {
			return // the specification requires increasing values
		}
		first, last = false, p.Progress
		idle.Reset(silence)
		l.progress(p)
	})
	return ctx, func() {
		remove()
		idle.Stop()
		cancel(nil)
		cancelLongest()
	}
}

// reportProgress passes a report to its callback, on the goroutine that reads from the server. It
// ignores reports with an unknown token, which are late or forged, and reports without a number.
func (s *Session) reportProgress(n *wire.Notification) {
	if n.Progress == nil || math.IsInf(*n.Progress, 0) {
		return
	}
	p := Progress{Progress: *n.Progress, Message: n.Message}
	if n.Total > 0 && !math.IsInf(n.Total, 0) {
		p.Total = n.Total
	}
	s.progress.call(n.ProgressToken, p)
}

// callbacks holds the callbacks of requests in flight, by request id. The zero value is ready to use.
type callbacks[T any] struct {
	mu sync.Mutex // guards m; held during a callback, so that none runs after remove
	m  map[string]func(T)
}

// add registers the callback before the request is sent.
func (c *callbacks[T]) add(id string, f func(T)) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[string]func(T){}
	}
	c.m[id] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.m, id)
	}
}

// call calls the callback of a request, if it is in flight.
func (c *callbacks[T]) call(id string, v T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.m[id]; f != nil {
		f(v)
	}
}

// clientCapabilities returns what the session declares to the server: the capabilities of the
// client behind it or, without a client, at most MCP Events.
func clientCapabilities(srv config.Server, client *ClientSide) any {
	switch {
	case client != nil && client.Capabilities != nil:
		return client.Capabilities
	case srv.Events.Off:
		return struct{}{}
	}
	return map[string]any{"extensions": map[string]any{mcp.ExtensionEvents: struct{}{}}}
}
