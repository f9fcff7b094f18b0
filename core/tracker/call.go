package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// Errors of requests that were not sent. A request for an unknown server first waits until Run
// has taken a config, and the last one that was applied.
var (
	// ErrUnknownServer: the tracker does not know a server of that id.
	ErrUnknownServer = errors.New("unknown server")
	// ErrNotConnected: the server is known but not connected right now.
	ErrNotConnected = errors.New("server not connected")
)

// CallTool calls a tool in the server's live session and returns the raw MCP result; a
// tool's own failure is in its isError member, see [session.ToolFailure]. Like its
// siblings, it caches and publishes nothing; see [Client] for that.
func (t *Tracker) CallTool(ctx context.Context, server, tool string, args map[string]any) (json.RawMessage, error) {
	conn, err := t.connection(ctx, server)
	if err != nil {
		return nil, err
	}
	return do(conn, func(s *session.Session) (json.RawMessage, error) { return s.CallTool(ctx, tool, args) })
}

// ReadResource reads a resource in the server's live session.
func (t *Tracker) ReadResource(ctx context.Context, server, uri string) (*session.Content, error) {
	conn, err := t.connection(ctx, server)
	if err != nil {
		return nil, err
	}
	return do(conn, func(s *session.Session) (*session.Content, error) { return s.Read(ctx, uri) })
}

// GetPrompt gets a prompt in the server's live session and returns the raw result.
func (t *Tracker) GetPrompt(ctx context.Context, server, name string, args map[string]string) (json.RawMessage, error) {
	conn, err := t.connection(ctx, server)
	if err != nil {
		return nil, err
	}
	return do(conn, func(s *session.Session) (json.RawMessage, error) { return s.GetPrompt(ctx, name, args) })
}

// connection is like live, but before it calls a server unknown it waits until Run has taken at
// least one config, and the last one applied.
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

// callTool makes one call and turns a tool's own failure into an error.
func callTool(ctx context.Context, conn *connection, c config.ToolCall) error {
	raw, err := do(conn, func(s *session.Session) (json.RawMessage, error) { return s.CallTool(ctx, c.Tool, c.Arguments) })
	if err != nil {
		return err
	}
	if text, failed := conn.s.ToolFailure(raw); failed {
		return errors.New(text)
	}
	return nil
}
