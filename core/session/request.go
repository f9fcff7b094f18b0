package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// Request is a raw request, for use by a proxy that forwards requests.
type Request struct {
	Method string
	// Params is sent unchanged, except for the members of _meta that the session sets: its progress
	// token and, in the modern era, the client.
	Params map[string]json.RawMessage
	// Progress is called for each progress report by the goroutine that reads from the server, one
	// call at a time and never after Do has returned. It must not block. If nil, the server is not
	// asked to report progress.
	Progress func(Progress)
	// Timeout is how long the server may be silent; see [WithProgress]. Zero selects the request
	// timeout in the server's entry.
	Timeout time.Duration
	// Client contains the capabilities of the client that makes the request, as a JSON object, or
	// nil if it has none. A modern server sees them and may respond with an incomplete result: Do
	// then returns it unchanged, and the client answers by repeating the request. In the legacy
	// era, Client has no effect.
	Client json.RawMessage
}

// Do sends a request and returns the raw result. A notification, whose method starts with
// "notifications/", has no result. Do returns the same errors as the other methods; an [*RPCError]
// is the server's error, unchanged. When ctx is done, the request is cancelled on the server.
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

// request sends a request and returns its result. It fails when ctx is done, when the session ends,
// or after the request timeout.
func (s *Session) request(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	return s.bounded(ctx, method, params, limits{progress: progressOf(ctx)}, nil)
}

// bounded sends a request within limits. client contains the capabilities of the client that makes
// the request, to which a modern server may respond with an incomplete result. client is nil if
// there is no client.
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

// nextID returns a new request id.
func (s *Session) nextID() wire.ID { return wire.ID(s.seq.Add(1)) }

// send sends a request over conn in the given protocol version. It is limited only by ctx, because
// handshakes and listens have their own limits.
func (s *Session) send(ctx context.Context, conn *wire.Conn, version string, id wire.ID, method string, params map[string]any) (json.RawMessage, error) {
	return s.do(ctx, conn, s.prepare(conn, version, id, method, params))
}

// prepare adds the members of _meta that every request in the era requires.
func (s *Session) prepare(conn *wire.Conn, version string, id wire.ID, method string, params map[string]any) wire.Request {
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
			err = conn.WithOutput(err) // the output concerns this request or the server's start
		}
		return nil, err
	}
	return raw, s.checkResultType(q.Method, raw)
}

// exchange sends a request and returns its result, regardless of its resultType.
func (s *Session) exchange(ctx context.Context, conn *wire.Conn, q wire.Request) (json.RawMessage, error) {
	if err := s.Err(); err != nil {
		return nil, &InterruptedError{Err: err}
	}
	raw, err := s.traced(ctx, conn, q)
	if rpc, ok := errors.AsType[*RPCError](err); ok && rpc.Code == mcp.CodeUnsupportedVersion && s.Info().Era == EraModern {
		// The server has been replaced by one with other versions. The next session negotiates the
		// version again.
		end := &EndError{Reason: "the server no longer supports the protocol version " + mcp.ModernVersion, Err: err}
		s.end(end)
		return nil, &InterruptedError{Err: end}
	}
	return raw, err
}

// withMeta returns the params with members added to _meta.
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

// checkResultType rejects results whose resultType is unknown. A result without resultType is
// complete.
func (s *Session) checkResultType(method string, raw json.RawMessage) error {
	if bytes.HasPrefix(raw, []byte("{")) && !bytes.Contains(raw, []byte(`"resultType"`)) {
		return nil // without decoding it, because it may be large
	}
	var result struct {
		ResultType json.RawMessage `json:"resultType"`
	}
	if json.Unmarshal(raw, &result) != nil {
		return errors.New("malformed result: not an object")
	}
	switch string(result.ResultType) {
	case "", "null", `"complete"`:
		return nil
	case `"input_required"`:
		return newInputRequired(s.redact, method, raw)
	}
	return fmt.Errorf("%s: unknown resultType %s", method, printable.Line(string(result.ResultType), 40))
}

// maxExtended limits how long progress reports can extend a request.
const maxExtended = time.Hour

// Progress is the content of a notifications/progress message.
type Progress struct {
	Progress float64 // never infinite or NaN
	Total    float64 // 0 if unknown
	Message  string  // untrusted text from the server
}

type progressKey struct{}

// WithProgress asks the server to report progress on requests made with the returned context. The
// server may ignore this. f is called by the goroutine that reads from the server, one call at a
// time and never after the request has returned. It must not block.
//
// Each report extends the request: the request fails only when the server has been silent for the
// request timeout, or after one hour (or the request timeout, if that is longer).
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

func progressOf(ctx context.Context) func(Progress) {
	f, _ := ctx.Value(progressKey{}).(func(Progress))
	return f
}

// limits contains the time limits for one request.
type limits struct {
	silence  time.Duration  // how long the server may be silent; 0 selects the request timeout
	progress func(Progress) // called for each progress report; may be nil
}

// silentError is the error of a request that was not answered in time. Its text is made only when needed.
type silentError struct {
	limit time.Duration
	hint  string // how to change the limit; may be empty
}

func (e silentError) Error() string { return fmt.Sprintf("%v (%s)%s", errDeadline, e.limit, e.hint) }
func (e silentError) Unwrap() error { return errDeadline }

// bound returns the context for a request. It is done when the server has been silent for too long,
// and after maxExtended at the latest, so that progress reports cannot keep a request alive
// forever. All timeouts and progress reports are handled here; see [WithProgress]. The caller must
// call stop when the request ends.
func (s *Session) bound(ctx context.Context, id wire.ID, l limits) (_ context.Context, stop func()) {
	silence := cmp.Or(max(l.silence, 0), s.requestTimeout())
	late := silentError{limit: silence}
	if l.silence <= 0 && !s.opts.OneShot { // a command has a flag of its own
		late.hint = "; raise requestTimeout"
	}
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

// reportProgress passes a progress report to its callback, on the goroutine that reads from the
// server. It ignores reports with an unknown token, which are late or forged, and reports without a
// number.
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

// callbacks stores the callbacks for requests in flight, by request id. The zero value is ready to
// use.
type callbacks[T any] struct {
	mu sync.Mutex // guards m; held during a callback, so that no callback runs after remove
	m  map[wire.ID]func(T)
}

// add registers a callback. It must be called before the request is sent.
func (c *callbacks[T]) add(id wire.ID, f func(T)) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[wire.ID]func(T){}
	}
	c.m[id] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.m, id)
	}
}

// call calls the callback for a request if the request is in flight.
func (c *callbacks[T]) call(id wire.ID, v T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.m[id]; f != nil {
		f(v)
	}
}

// clientCapabilities returns the capabilities that the session declares to the server: those of the
// client behind it or, without a client, at most MCP Events.
func clientCapabilities(srv config.Server, client *ClientSide) any {
	declared := map[string]any{}
	if client != nil && client.Capabilities != nil {
		if !client.Events || json.Unmarshal(client.Capabilities, &declared) != nil {
			return client.Capabilities
		}
	}
	if !srv.Events.Off {
		declared["extensions"] = map[string]any{mcp.ExtensionEvents: struct{}{}}
	}
	return declared
}
