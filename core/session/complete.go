package session

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// Reference names what an argument belongs to: a prompt by its name, or a resource
// template by its URI template. One of the two is set.
type Reference struct {
	Prompt   string
	Template string
}

// Completion is what a server offers for an argument.
type Completion struct {
	Values []string // at most 100; as the server sent them, so not to be trusted to be printable
	Total  int      // of all that there are, 0 when the server does not say
	More   bool     // whether there are more than Values
}

// maxCompletions is what the specification allows a server to offer at a time.
const maxCompletions = 100

// Complete asks what an argument may be, given the beginning of its value and the
// arguments that were given before it. A server that does not offer completions
// gives [ErrUnsupported] without being asked.
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
