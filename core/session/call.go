package session

import (
	"context"
	"encoding/json"
	"fmt"
)

// CallTool calls a tool and returns the raw result. A tool that failed says so
// in the result's isError, which is for the caller to look at; the error is for
// calls that were not answered or refused.
func (s *Session) CallTool(ctx context.Context, name string, args map[string]any) (json.RawMessage, error) {
	if args == nil {
		args = map[string]any{}
	}
	raw, err := s.withMirrors(ctx, func() (json.RawMessage, error) {
		return s.request(ctx, methodCall, map[string]any{"name": name, "arguments": args})
	})
	if err != nil {
		return nil, fmt.Errorf("call tool %q: %w", name, err)
	}
	return raw, nil
}

// GetPrompt gets a prompt and returns the raw result.
func (s *Session) GetPrompt(ctx context.Context, name string, args map[string]string) (json.RawMessage, error) {
	params := map[string]any{"name": name}
	if len(args) > 0 {
		params["arguments"] = args
	}
	raw, err := s.request(ctx, "prompts/get", params)
	if err != nil {
		return nil, fmt.Errorf("get prompt %q: %w", name, err)
	}
	return raw, nil
}

// Redact makes a text of the server safe to show to others than who asked for it:
// one printable line of at most 1 KiB, without the secrets of the server's entry.
func (s *Session) Redact(text string) string { return s.redact.text(text) }

// Ping asks for a sign of life and waits for it: ping of the legacy era,
// server/discover of the modern one, which has no ping. An error that the server
// answered is a sign of life too.
func (s *Session) Ping(ctx context.Context) error {
	method := "ping"
	if s.isModern() {
		method = methodDiscover
	}
	_, err := s.request(ctx, method, nil)
	if err != nil && !isAnswer(err) {
		return fmt.Errorf("ping: %w", err)
	}
	return nil
}
