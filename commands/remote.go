package commands

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/remote"
)

// remoteFlags are the flags of commands that ask a running serve-sse.
type remoteFlags struct {
	tokenFile string
	insecure  bool
}

func (r *remoteFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` (mode 0600) with the token of the serve-sse (default $MCPTRACK_TOKEN)")
	f.BoolVar(&r.insecure, "insecure", false, "send the token without encryption to another machine")
	_ = cmd.MarkFlagFilename("token-file")
}

// token returns the token for an address, "" if there is none. It is never sent
// unencrypted to another machine unless --insecure says so.
func (r *remoteFlags) token(env *cli.Env, to *url.URL) (string, error) {
	token := strings.TrimSpace(env.Getenv("MCPTRACK_TOKEN"))
	if r.tokenFile != "" {
		var err error
		if token, err = cli.ReadSecret("token-file", r.tokenFile); err != nil {
			return "", err
		}
	}
	if token != "" && to.Scheme == "http" && !ipscope.ThisMachine(to.Hostname()) && !r.insecure {
		return "", cli.UsageHint("use https, or add --insecure", "the connection to %s is not encrypted: others could read the token", printable.Line(to.Host, 200))
	}
	return token, nil
}

// defaultServeURL is where serve-sse listens unless --addr says otherwise.
const defaultServeURL = "http://127.0.0.1:8722"

// askFailure gives an error of a serve-sse its exit code and a hint.
func askFailure(ctx context.Context, err error) error {
	if unreachable, ok := errors.AsType[*remote.UnreachableError](err); ok {
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), cli.ErrTimeout) {
			return err
		}
		f := &cli.Failure{Exit: cli.ExitUnreachable, Code: "unreachable", Err: unreachable, Hint: "is mcptrack serve-sse running there?"}
		if errors.Is(err, cli.ErrTimeout) {
			f.Hint = "give it more time with --timeout"
		}
		return f
	}
	if status, ok := errors.AsType[*remote.StatusError](err); ok {
		f := &cli.Failure{Exit: cli.ExitRefused, Code: "refused", Err: status}
		if status.Code == http.StatusUnauthorized {
			f.Hint = "specify the file with the token of the server with --token-file"
		}
		return f
	}
	if errors.Is(err, remote.ErrNotServeSSE) {
		return &cli.Failure{Exit: cli.ExitRefused, Code: "refused", Err: err}
	}
	return err
}
