package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/output/web"
)

// mcpPath is the path of the endpoint of commands that are MCP servers.
const mcpPath = "/mcp"

// mcpFlags are of the commands that are MCP servers: where their clients come from.
type mcpFlags struct {
	stdio     bool
	addr      string
	tokenFile string
	origins   []string
}

func (o *mcpFlags) add(cmd *cobra.Command, addr string) {
	f := cmd.Flags()
	f.BoolVar(&o.stdio, "stdio", false, "serve one client over standard input and output")
	f.StringVar(&o.addr, "addr", addr, "`ADDRESS` to listen on; port 0 picks one")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` (mode 0600) with the token that clients must present")
	f.StringArrayVar(&o.origins, "allow-origin", nil, "`ORIGIN` of a site whose pages may ask (repeatable)")
	_ = cmd.MarkFlagFilename("token-file")
}

func (o *mcpFlags) check(cmd *cobra.Command) error {
	if o.stdio && (cmd.Flags().Changed("addr") || o.tokenFile != "" || len(o.origins) > 0) {
		return usage("--stdio has no use for --addr, --token-file and --allow-origin")
	}
	return nil
}

// overHTTP listens at once, so that a bad address is told before anything else is
// begun. What it returns serves until its context ends; closing is called then, and
// is to end the handler's streams.
func (o *mcpFlags) overHTTP(ctx context.Context, env *Env, log *slog.Logger, h http.Handler, closing func()) (func(context.Context) error, error) {
	var token web.Token
	if o.tokenFile != "" {
		var err error
		if token, err = web.LoadToken(o.tokenFile); err != nil {
			return nil, webFailure(err)
		}
	}
	srv, err := web.New(web.Options{MCP: true, Token: token, Origins: o.origins, Logger: log})
	if err != nil {
		return nil, webFailure(err)
	}
	ln, err := srv.Listen(ctx, o.addr)
	if err != nil {
		return nil, webFailure(err)
	}
	srv.Handle(mcpPath, h)
	srv.OnShutdown(func(context.Context) error {
		closing()
		return nil
	})
	return func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ln.Close()
		}
		fmt.Fprintf(env.Err, "listening on %s%s\n", srv.URL(), mcpPath)
		return srv.Serve(ctx, ln)
	}, nil
}

// whileRunning runs what keeps a server up to date, and serves once it is ready.
// The end of either ends the other.
func whileRunning(ctx context.Context, run func(context.Context) error, ready <-chan struct{}, serve func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { cancel(run(ctx)) })
	select {
	case <-ready:
	case <-ctx.Done():
	}
	err := serve(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil // stopped
	}
	return err
}
