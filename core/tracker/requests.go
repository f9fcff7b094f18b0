package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// Errors for requests that were not sent. Before a request fails with ErrUnknownServer, it waits
// until Run has taken the most recently applied config, or the first one if none has been applied
// yet.
var (
	// ErrUnknownServer means that the tracker has no server with the given id.
	ErrUnknownServer = errors.New("unknown server")
	// ErrNotConnected means that the server is known but not currently connected.
	ErrNotConnected = errors.New("server not connected")
)

// CallTool calls a tool in the server's live session and returns the raw MCP result. A failure
// reported by the tool itself is in the result's isError member; see [session.ToolFailure].
// CallTool, ReadResource, GetPrompt and Do do not cache or publish anything; for that, use a
// [Client].
func (t *Tracker) CallTool(ctx context.Context, server, tool string, args map[string]any) (json.RawMessage, error) {
	return request(ctx, t, server, func(s *session.Session) (json.RawMessage, error) { return s.CallTool(ctx, tool, args) })
}

// ReadResource reads a resource in the server's live session, without caching or publishing it.
func (t *Tracker) ReadResource(ctx context.Context, server, uri string) (*session.Content, error) {
	return request(ctx, t, server, func(s *session.Session) (*session.Content, error) { return s.Read(ctx, uri) })
}

// GetPrompt retrieves a prompt in the server's live session and returns the raw result.
func (t *Tracker) GetPrompt(ctx context.Context, server, name string, args map[string]string) (json.RawMessage, error) {
	return request(ctx, t, server, func(s *session.Session) (json.RawMessage, error) { return s.GetPrompt(ctx, name, args) })
}

// Do sends an arbitrary request in the server's live session and returns the raw result. It is
// meant for proxies.
func (t *Tracker) Do(ctx context.Context, server string, q session.Request) (json.RawMessage, error) {
	return request(ctx, t, server, func(s *session.Session) (json.RawMessage, error) { return s.Do(ctx, q) })
}

// request performs a request in the server's live session.
func request[T any](ctx context.Context, t *Tracker, server string, send func(*session.Session) (T, error)) (answer T, err error) {
	conn, err := t.connection(ctx, server)
	if err != nil {
		return answer, err
	}
	return do(conn, send)
}

// do performs a request for a client or the config and records it for the liveness check.
func do[T any](c *connection, send func(*session.Session) (T, error)) (T, error) {
	n := c.requests.begin()
	answer, err := send(c.s)
	c.requests.end(n, err)
	return answer, err
}

// connection returns the connection of the server's live session, like live. Before it reports an
// unknown server, it waits for the config as awaitTaken does.
func (t *Tracker) connection(ctx context.Context, server string) (*connection, error) {
	conn, err := t.live(server)
	if !errors.Is(err, ErrUnknownServer) {
		return conn, err
	}
	if waitErr := t.awaitTaken(ctx); waitErr != nil {
		return nil, fmt.Errorf("%w: %w", err, waitErr)
	}
	return t.live(server)
}

// live returns the connection of the server's live session.
func (t *Tracker) live(server string) (*connection, error) {
	t.mu.Lock()
	w := t.workers[server]
	t.mu.Unlock()
	if w == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnknownServer, printable.Line(server, 128))
	}
	if conn := w.conn.Load(); conn != nil {
		return conn, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrNotConnected, printable.Line(server, 128))
}

// callAll makes the tool calls listed in the config's onConnect, one after the other.
func (c *connection) callAll(ctx context.Context, calls []config.ToolCall, log *slog.Logger) {
	for _, call := range calls {
		raw, err := do(c, func(s *session.Session) (json.RawMessage, error) { return s.CallTool(ctx, call.Tool, call.Arguments) })
		if err == nil {
			if text, failed := c.s.ToolFailure(raw); failed {
				err = errors.New(text)
			}
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("onConnect call failed", "tool", call.Tool, "err", errorLine(err))
		}
	}
}

// OnMessage registers a function that receives the notifications not related to tracking, such as
// notifications/tasks, until remove is called. It is called by the goroutine that reads from the
// server, so it must not block; a call may still be running when remove returns. Any number of
// functions can be registered, at any time.
func (t *Tracker) OnMessage(f func(server, method string, params json.RawMessage)) (remove func()) {
	own := &messageHandler{f}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.messages = append(slices.Clip(t.messages), own)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.messages = slices.DeleteFunc(slices.Clone(t.messages), func(h *messageHandler) bool { return h == own })
	}
}

// messageHandler is a function registered with OnMessage.
type messageHandler struct {
	handle func(server, method string, params json.RawMessage)
}

// dial wraps next in a DialFunc whose sessions pass unrelated notifications to the functions
// registered with OnMessage.
func (t *Tracker) dial(next session.DialFunc) session.DialFunc {
	return func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		opts.Client = nil
		if t.opts.ClientSide != nil {
			opts.Client = t.opts.ClientSide(srv.ID)
		}
		if opts.Client == nil {
			opts.Client = &session.ClientSide{}
		}
		opts.Client.Message = func(method string, params json.RawMessage) {
			t.mu.Lock()
			handlers := t.messages
			t.mu.Unlock()
			for _, h := range handlers {
				h.handle(srv.ID, method, params)
			}
		}
		return next(ctx, srv, opts)
	}
}
