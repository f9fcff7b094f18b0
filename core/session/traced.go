package session

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
	"github.com/mcptrack/mcptrack/core/tracing"
)

// traced sends a request and records its span, if there is a tracer. The server sees the span as the
// parent of the request, instead of a trace context that the params already contain.
func (s *Session) traced(ctx context.Context, conn *wire.Conn, q wire.Request) (json.RawMessage, error) {
	if s.opts.Tracer == nil || !hasSpan(q.Method) {
		return conn.Do(ctx, q)
	}
	ctx, span := s.opts.Tracer.Client(ctx, tracing.Request{
		Method: q.Method, Target: s.redact.text(q.Text("name")), URI: s.redact.text(q.Text("uri")),
		ID: strconv.FormatInt(int64(q.ID), 10), Version: q.Version, Server: s.id, Pipe: !conn.HTTP(),
	})
	defer span.End()
	q.Params = withMeta(q.Params, nil)
	span.Inject(q.Params["_meta"].(map[string]any)) // withMeta has made it
	raw, err := conn.Do(ctx, q)
	if rpc, ok := errors.AsType[*RPCError](err); ok {
		span.FailRPC(rpc.Code, s.redact.text(rpc.Message))
	} else if err != nil {
		span.FailWith(cause(ctx, err))
	}
	span.Result(q.Method, raw)
	return raw, err
}

// cause returns the reason why a request failed, in the terms of package context if ctx ended.
func cause(ctx context.Context, err error) error {
	if errors.Is(err, errDeadline) {
		return context.DeadlineExceeded
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// hasSpan reports whether requests for a method have spans. Pings would be most of all spans, and
// streams last as long as the session.
func hasSpan(method string) bool {
	switch method {
	case mcp.MethodPing, mcp.MethodListen, mcp.MethodStreamEvents:
		return false
	}
	return true
}
