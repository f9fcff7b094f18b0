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

// Errors of requests that reached no server.
var (
	// ErrUnknownServer: the tracker does not know a server of that id.
	ErrUnknownServer = errors.New("unknown server")
	// ErrNotConnected: the server is known but not connected right now.
	ErrNotConnected = errors.New("server not connected")
)

// CallTool calls a tool in the server's live session and returns the raw MCP
// result; a tool's own failure is in its isError member. See [ToolFailure]. It is
// for passing on, as its siblings are: nothing is kept or told. See [Client].
func (t *Tracker) CallTool(ctx context.Context, server, tool string, args map[string]any) (json.RawMessage, error) {
	conn, err := t.connection(server)
	if err != nil {
		return nil, err
	}
	return errand(conn, func(s *session.Session) (json.RawMessage, error) { return s.CallTool(ctx, tool, args) })
}

// ReadResource reads a resource in the server's live session, always anew.
func (t *Tracker) ReadResource(ctx context.Context, server, uri string) (*session.Content, error) {
	conn, err := t.connection(server)
	if err != nil {
		return nil, err
	}
	return errand(conn, func(s *session.Session) (*session.Content, error) { return s.Read(ctx, uri) })
}

// GetPrompt gets a prompt in the server's live session and returns the raw result.
func (t *Tracker) GetPrompt(ctx context.Context, server, name string, args map[string]string) (json.RawMessage, error) {
	conn, err := t.connection(server)
	if err != nil {
		return nil, err
	}
	return errand(conn, func(s *session.Session) (json.RawMessage, error) { return s.GetPrompt(ctx, name, args) })
}

// connection returns that of the server's live session.
func (t *Tracker) connection(server string) (*connection, error) {
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

// ToolFailure reports whether the raw result of a tool call says that the tool
// failed, and the first text that it gave as a printable line.
func ToolFailure(result json.RawMessage) (string, bool) {
	text, failed := failureText(result)
	return printable.Line(text, maxFailure), failed
}

// maxFailure is how many bytes of a tool's own words are shown.
const maxFailure = 300

// failureText is what a tool that failed said, as it said it.
func failureText(result json.RawMessage) (string, bool) {
	var r struct {
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(result, &r) != nil || !r.IsError {
		return "", false
	}
	for _, c := range r.Content {
		if c.Text != "" {
			return c.Text, true
		}
	}
	return "the tool failed without saying why", true
}

// callTool makes one call and turns a tool's own failure into an error.
func callTool(ctx context.Context, conn *connection, c config.ToolCall) error {
	raw, err := errand(conn, func(s *session.Session) (json.RawMessage, error) { return s.CallTool(ctx, c.Tool, c.Arguments) })
	if err != nil {
		return err
	}
	if text, failed := failureText(raw); failed {
		return errors.New(printable.Line(conn.s.Redact(text), maxFailure)) // it is logged
	}
	return nil
}
