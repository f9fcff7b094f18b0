package commands

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/output/remote"
)

// defaultServeURL is the default address of serve-sse.
const defaultServeURL = "http://127.0.0.1:8722"

// remoteFlags contains the flags of commands that send requests to a running serve-sse.
type remoteFlags struct {
	tokenFile string
	insecure  bool
}

func (r *remoteFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` (mode 0600) with the token for the serve-sse (default $MCPTRACK_TOKEN)")
	f.BoolVar(&r.insecure, "insecure", false, "send the token unencrypted to another machine")
	_ = cmd.MarkFlagFilename("token-file")
}

func (r *remoteFlags) token(env *cli.Env, to *url.URL) (string, error) {
	return cli.ServeToken(env, to, "token-file", r.tokenFile, r.insecure)
}

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
