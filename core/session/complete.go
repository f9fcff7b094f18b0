package session

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// Reference identifies the prompt or resource template whose argument is completed. One of the
// two is set.
type Reference struct {
	Prompt   string
	Template string
}

// Completion is the server's suggestions for the value of an argument.
type Completion struct {
	Values []string // at most 100, as the server sent them: they may be unprintable
	Total  int      // how many values exist, 0 if the server does not say
	More   bool     // whether more exist than are in Values
}

// maxCompletions is the most values that the specification allows in one answer.
const maxCompletions = 100

// Complete requests completions for an argument, given the beginning of its value and the
// arguments already known. If the server does not offer completions, the error is
// [ErrUnsupported] and nothing is sent.
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
	raw, err := s.requests.request(ctx, mcp.MethodComplete, params)
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
