package commands

import (
	"context"
	"errors"
	"net/http"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/output/remote"
)

// askFailure adds an exit code and a hint to an error from a serve-sse.
func askFailure(ctx context.Context, err error) error {
	if unreachable, ok := errors.AsType[*remote.UnreachableError](err); ok {
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), cli.ErrTimeout) {
			return err
		}
		f := &cli.Failure{Exit: cli.ExitUnreachable, Code: "unreachable", Err: unreachable, Hint: "is mcptrack serve-sse running there?"}
		if errors.Is(err, cli.ErrTimeout) {
			f.Hint = "allow more time with --timeout"
		}
		return f
	}
	if status, ok := errors.AsType[*remote.StatusError](err); ok {
		f := &cli.Failure{Exit: cli.ExitRefused, Code: "refused", Err: status}
		if status.Code == http.StatusUnauthorized {
			f.Hint = "specify the server's token file with --token-file"
		}
		return f
	}
	if errors.Is(err, remote.ErrNotServeSSE) {
		return &cli.Failure{Exit: cli.ExitRefused, Code: "refused", Err: err}
	}
	return err
}
