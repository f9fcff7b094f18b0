package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// CallTool calls a tool and returns the raw result. It returns an error if the call was rejected or
// not answered. If the tool itself failed, the result has isError set, which the caller must check.
func (s *Session) CallTool(ctx context.Context, name string, args map[string]any) (json.RawMessage, error) {
	if args == nil {
		args = map[string]any{}
	}
	s.listenForRequests(ctx)
	s.learnTools(ctx)
	if err := s.ToolError(name); err != nil {
		return nil, err
	}
	raw, err := s.withToolHeaders(ctx, func() (json.RawMessage, error) {
		return s.request(ctx, mcp.MethodCallTool, map[string]any{"name": name, "arguments": args})
	})
	if err != nil {
		return nil, fmt.Errorf("call tool %q: %w", name, err)
	}
	return raw, nil
}

// listenForRequests opens the notification stream that a one-shot session over legacy HTTP normally
// lacks, because the server may send a request on it and wait for the response before the tool
// returns.
func (s *Session) listenForRequests(ctx context.Context) {
	if s.opts.OneShot && s.Info().Era == EraLegacy && s.conn.HTTP() {
		s.streamOnce.Do(func() {
			ctx, cancel := context.WithTimeout(ctx, requestStreamPatience)
			defer cancel()
			s.conn.Listen()
			s.conn.AwaitStream(ctx)
		})
	}
}

// requestStreamPatience limits the wait for the notification stream, because some servers send its
// headers only with the first event.
const requestStreamPatience = 250 * time.Millisecond

// mirrors reports whether tool calls may have to repeat arguments in headers.
func (s *Session) mirrors() bool {
	return s.conn.HTTP() && s.Info().Era == EraModern
}

// learnTools lists the tools, unless the headers that their calls need are already known. If
// listing fails, the call itself reports which header is missing.
func (s *Session) learnTools(ctx context.Context) {
	if s.mirrors() && !s.conn.ToolsKnown() {
		_, _ = s.List(ctx, catalog.Tools)
	}
}

// InvalidToolError reports that a tool must not be called over HTTP, because the part of its schema
// that specifies which arguments are repeated in headers is invalid.
type InvalidToolError struct {
	Tool, Reason string // Reason is printable
}

func (e *InvalidToolError) Error() string {
	return fmt.Sprintf("the definition of tool %q is invalid, so clients must not call it over HTTP: %s", printable.Line(e.Tool, 200), e.Reason)
}

// ToolError returns an [*InvalidToolError] if the listed tool must not be called, and nil
// otherwise.
func (s *Session) ToolError(name string) error {
	if !s.mirrors() {
		return nil
	}
	if err := s.conn.ToolError(name); err != nil {
		return &InvalidToolError{name, printable.Reason(err, 300)}
	}
	return nil
}

// InvalidTools returns, by name, the reasons why tools in a list must not be called in a session with
// the given Info; see [InvalidToolError]. It returns nil if all may be.
func InvalidTools(info Info, tools catalog.List) (invalid map[string]string) {
	if info.Transport != config.TransportHTTP || info.Era != EraModern {
		return nil
	}
	for _, it := range tools {
		if err := wire.CheckTool(it); err != nil {
			if invalid == nil {
				invalid = map[string]string{}
			}
			invalid[it.Key] = printable.Reason(err, 300)
		}
	}
	return invalid
}

// withToolHeaders makes a tool call. If the server reports a missing header, it lists the tools and
// retries once, because the tools may have changed since they were last listed.
func (s *Session) withToolHeaders(ctx context.Context, call func() (json.RawMessage, error)) (json.RawMessage, error) {
	raw, err := call()
	e, ok := errors.AsType[*RPCError](err)
	if !ok || e.Code != mcp.CodeHeaderMismatch || !s.mirrors() {
		return raw, err
	}
	if _, failed := s.List(ctx, catalog.Tools); failed != nil {
		return raw, err
	}
	return call()
}

// GetPrompt gets a prompt and returns the raw result.
func (s *Session) GetPrompt(ctx context.Context, name string, args map[string]string) (json.RawMessage, error) {
	params := map[string]any{"name": name}
	if len(args) > 0 {
		params["arguments"] = args
	}
	raw, err := s.request(ctx, mcp.MethodGetPrompt, params)
	if err != nil {
		return nil, fmt.Errorf("get prompt %q: %w", name, err)
	}
	return raw, nil
}

// Redact makes a text from the server safe to show to people other than the requester: it returns
// one printable line of at most 1 KiB without the secrets from the server's entry.
func (s *Session) Redact(text string) string { return s.redact.text(text) }

// rejectsLists reports whether the server answers the requests for all lists that it offers with errors.
func (s *Session) rejectsLists(ctx context.Context) (all bool) {
	for _, k := range []catalog.Kind{catalog.Resources, catalog.Tools, catalog.Prompts} {
		if s.Info().Capabilities.Has(k) {
			_, err := s.request(ctx, k.Method(), nil)
			if _, all = errors.AsType[*RPCError](err); !all {
				return false
			}
		}
	}
	return all
}

// Ping checks that the server responds. It sends ping in the legacy era, and server/discover in the
// modern era, which has no ping. An error response also counts as a response. But if a legacy server
// over HTTP rejects both ping and all lists that it offers, it no longer knows the session, which then ends.
func (s *Session) Ping(ctx context.Context) error {
	method := mcp.MethodPing
	if s.Info().Era == EraModern {
		method = mcp.MethodDiscover
	}
	raw, err := s.request(ctx, method, nil)
	if err != nil && !isAnswer(err) {
		return fmt.Errorf("ping: %w", err)
	}
	if noPing := errors.Is(err, ErrUnsupported); err != nil && method == mcp.MethodPing && s.conn.HTTP() && !(noPing && s.noPing.Load()) {
		if s.rejectsLists(ctx) {
			s.end(&EndError{Reason: "the server no longer knows the session", Err: err})
			return fmt.Errorf("ping: %w", err)
		}
		s.noPing.Store(noPing)
	}
	if err == nil && method == mcp.MethodDiscover {
		if info, err := (handshake{s: s}).discovered(raw); err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pinged = &info
		}
	}
	return nil
}

// Redescribe makes Info return the capabilities and instructions in the response to the last Ping, and
// reports whether they differ from what it returned before. A modern server over HTTP can be replaced
// by another version while the session lasts; other servers describe themselves once.
func (s *Session) Redescribe() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinged == nil || bytes.Equal(s.pinged.RawCapabilities, s.info.RawCapabilities) && s.pinged.Instructions == s.info.Instructions {
		return false
	}
	s.info.Capabilities, s.info.RawCapabilities, s.info.Instructions = s.pinged.Capabilities, s.pinged.RawCapabilities, s.pinged.Instructions
	return true
}

// Reference identifies the prompt or resource template whose argument is to be completed. Exactly
// one field is set.
type Reference struct {
	Prompt   string
	Template string
}

// Completion contains the server's suggestions for the value of an argument.
type Completion struct {
	Values []string // at most 100, as sent by the server; may be unprintable
	Total  int      // total number of values; 0 if the server did not specify it
	More   bool     // whether more values exist
}

// maxCompletions is the maximum number of values that the specification allows per response.
const maxCompletions = 100

// Complete requests completions for an argument, given the start of its value and the arguments
// that are already known. If the server does not offer completions, it returns [ErrUnsupported]
// without sending a request.
func (s *Session) Complete(ctx context.Context, ref Reference, argument, value string, given map[string]string) (Completion, error) {
	if !s.Info().Capabilities.Completions {
		return Completion{}, fmt.Errorf("complete %q: %w: no completions", argument, ErrUnsupported)
	}
	of := map[string]any{"type": "ref/prompt", "name": ref.Prompt}
	if ref.Template != "" {
		of = map[string]any{"type": "ref/resource", "uri": ref.Template}
	}
	params := map[string]any{"ref": of, "argument": map[string]any{"name": argument, "value": value}}
	if len(given) > 0 {
		params["context"] = map[string]any{"arguments": given}
	}
	raw, err := s.request(ctx, mcp.MethodComplete, params)
	if err != nil {
		return Completion{}, fmt.Errorf("complete %q: %w", argument, err)
	}
	var result struct {
		Completion *struct {
			Values  []string `json:"values"`
			Total   int      `json:"total"`
			HasMore bool     `json:"hasMore"`
		} `json:"completion"`
	}
	if err := json.Unmarshal(raw, &result); err != nil || result.Completion == nil {
		return Completion{}, fmt.Errorf("complete %q: malformed result", argument)
	}
	c := result.Completion
	return Completion{
		Values: c.Values[:min(len(c.Values), maxCompletions)], Total: max(c.Total, 0),
		More: c.HasMore || len(c.Values) > maxCompletions,
	}, nil
}

// maxToolFailure limits how many bytes of a tool's error text are shown.
const maxToolFailure = 300

// ToolFailure reports whether the raw result of a tool call has isError set. If it does,
// ToolFailure also returns its first text as one printable line.
func ToolFailure(result json.RawMessage) (string, bool) {
	text, failed := toolFailureText(result)
	return printable.Line(printable.Flat(text), maxToolFailure), failed
}

// ToolFailure is like the function [ToolFailure], but redacts the session's secrets, for logs and
// events.
func (s *Session) ToolFailure(result json.RawMessage) (string, bool) {
	text, failed := toolFailureText(result)
	if !failed {
		return "", false
	}
	return printable.Line(s.Redact(text), maxToolFailure), true
}

// toolFailureText returns the unchanged error text of a failed tool call.
func toolFailureText(result json.RawMessage) (string, bool) {
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
	return "the tool failed without an error message", true
}
