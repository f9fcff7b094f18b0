package session

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// Request is a request in its raw form, for a proxy that passes on what it was
// asked.
type Request struct {
	Method string
	// Params are sent as they are, but for what the session says itself: its own
	// progress token and, in the modern era, who asks, in _meta.
	Params map[string]json.RawMessage
	// Progress is told how far the server says to be. It is called by the
	// transport's reader, one call at a time and none after Do has returned, and
	// must return at once. Nil: the server is not asked to tell.
	Progress func(Progress)
	// Timeout is how long the server may be silent: progress begins it anew. 0: the
	// request timeout of the server's entry.
	Timeout time.Duration
}

// Do sends a request and returns the raw result. The errors are those of the other
// methods: an [*RPCError] is what the server answered, as it answered it. When ctx
// ends, the server is told to stop.
func (s *Session) Do(ctx context.Context, q Request) (json.RawMessage, error) {
	if q.Method == methodCall {
		return s.withMirrors(ctx, func() (json.RawMessage, error) { return s.do(ctx, q) })
	}
	return s.do(ctx, q)
}

func (s *Session) do(ctx context.Context, q Request) (json.RawMessage, error) {
	limit := q.Timeout
	if limit <= 0 {
		limit = s.requestTimeout()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%w (%s)", errDeadline, limit)) })
	defer timer.Stop()

	id := s.nextID()
	params := make(map[string]any, len(q.Params))
	for name, value := range q.Params {
		params[name] = value
	}
	if q.Progress != nil {
		params = withMeta(params, map[string]any{"progressToken": id})
		s.progress.add(id, func(p Progress) {
			timer.Reset(limit)
			q.Progress(p)
		})
		defer s.progress.remove(id)
	}
	return s.sendUnbounded(ctx, s.tr, s.Info().version(), id, q.Method, params)
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
		_ = json.Unmarshal(old, &raw) // an object, or nothing to keep
		for name, value := range raw {
			meta[name] = value
		}
	}
	maps.Copy(meta, members)
	p["_meta"] = meta
	return p
}
