package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/secretfile"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/metrics"
	"github.com/mcptrack/mcptrack/output/web"
)

// httpFlags contains the flags for clients that connect over HTTP.
type httpFlags struct {
	addr   string
	access cli.AccessFlags
}

func (o *httpFlags) check() error {
	if o.addr == "" && o.access.Set() {
		return cli.Usage("the flags for HTTP clients need --http")
	}
	return o.access.Check()
}

// tokens returns the tokens of HTTP clients, or nil without --http. If no file is specified, they are in
// one that mcptrack creates, whose name it stores in the flags.
func (o *httpFlags) tokens(env *cli.Env, g *cli.Globals, log *slog.Logger) (*web.Tokens, error) {
	if o.addr == "" {
		return nil, nil
	}
	if o.access.TokenFile == "" {
		dir := env.StateDir("daemon")
		if dir == "" {
			return nil, cli.Usage("no home directory to store a token in; set --token-file")
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		o.access.TokenFile = filepath.Join(dir, "http.token")
		if _, err := secretfile.Key(o.access.TokenFile); err != nil {
			return nil, err
		}
	}
	return o.access.Tokens(log, (&cli.TrackFlags{}).Reloads(env, g))
}

// listen listens for HTTP clients of the daemon. serve serves them until its context ends.
func (o *httpFlags) listen(ctx context.Context, env *cli.Env, log *slog.Logger, tokens *web.Tokens, d *daemon.Daemon, received *hook.Receiver, counts *metrics.Metrics) (serve func(context.Context) error, err error) {
	srv, ln, err := o.access.Listen(ctx, log, tokens, o.addr, func(w *web.Options) { w.MCP = true })
	if invalid, ok := errors.AsType[*web.OptionError](err); ok && invalid.Option == "addr" {
		return nil, cli.Usage("--http: %s", invalid.Reason)
	}
	if err != nil {
		return nil, err
	}
	srv.Handle(daemon.MCPPath, d.MCP())
	srv.Handle(hook.Path, cli.HookRoute(received))
	srv.Handle("GET /metrics", counts.Handler())
	return func(ctx context.Context) error {
		fmt.Fprintf(env.Err, "listening on %s%s\n", srv.URL(), daemon.MCPPath)
		return srv.Serve(ctx, ln)
	}, nil
}

// lookupEnv looks up the variables with which the configs of HTTP clients are read: those that tell
// where the user's folders and programs are.
func lookupEnv(env *cli.Env) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		if !slices.ContainsFunc(session.Inherited(), func(n string) bool { return strings.EqualFold(n, name) }) {
			return "", false
		}
		return env.LookupEnv(name)
	}
}
