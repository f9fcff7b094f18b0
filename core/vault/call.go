package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
)

func (s *Server) callTool(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(r.Params, &params); err != nil {
		return nil, refuse("arguments must be an object")
	}
	if len(params.Arguments) == 0 {
		params.Arguments = json.RawMessage("{}")
	}
	switch r.Name() {
	case "search_notes":
		var o SearchOptions
		if err := json.Unmarshal(params.Arguments, &o); err != nil {
			return toolError(argumentError(err)), nil
		}
		results, total, err := s.vault.Search(ctx, o)
		if err != nil {
			return failedTool(ctx, err)
		}
		return toolResult("", object{"results": results, "total": total}), nil
	case "read_note":
		var o struct {
			Path string `json:"path"`
		}
		if err := json.Unmarshal(params.Arguments, &o); err != nil {
			return toolError(argumentError(err)), nil
		}
		n, err := s.vault.ReadNote(ctx, o.Path)
		if err != nil {
			return failedTool(ctx, err)
		}
		return toolResult(n.Content, n), nil
	}
	if s.other != nil {
		return s.other(ctx, r)
	}
	return nil, fmt.Errorf("%w: tool %q", mcpserver.ErrNotFound, r.Name())
}

// failedTool returns errors that the model can correct as a tool result, and others
// as protocol errors.
func failedTool(ctx context.Context, err error) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrNotFound) {
		return toolError(printable.Reason(err, 500)), nil
	}
	return nil, err
}
