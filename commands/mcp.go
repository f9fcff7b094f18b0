package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/output/web"
)

// mcpPath is the path of the MCP endpoint of commands that serve MCP over HTTP.
const mcpPath = "/mcp"

// mcpFlags are the flags of commands that serve MCP: how clients connect.
type mcpFlags struct {
	stdio  bool
	addr   string
	access accessFlags
}

func (o *mcpFlags) add(cmd *cobra.Command, addr string) {
	f := cmd.Flags()
	f.BoolVar(&o.stdio, "stdio", false, "serve one client over standard input and output")
	f.StringVar(&o.addr, "addr", addr, "`ADDRESS` to listen on; port 0 picks one")
	o.access.add(cmd, "clients", "send requests")
}

func (o *mcpFlags) check(cmd *cobra.Command) error {
	if o.stdio && (cmd.Flags().Changed("addr") || o.access.set()) {
		return usage("--stdio cannot be used with --addr or the flags for HTTP clients")
	}
	return o.access.check()
}

// sessionDir is where the sessions of clients outlive the process, below the data directory of the
// command; "" if there is neither a data directory nor, over stdio, such a session.
func (o *mcpFlags) sessionDir(data string) string {
	if data == "" || o.stdio {
		return ""
	}
	return filepath.Join(data, "sessions")
}

// mcpEndpoint is what a command serves over HTTP.
type mcpEndpoint struct {
	handler http.Handler
	routes  map[string]http.Handler // additional ones, by pattern
	tokens  *web.Tokens             // nil: clients need none
	ready   func() error            // what /readyz asks; nil: it is always ready
	closing func()                  // ends the handler's streams when the server stops
}

// overHTTP listens immediately, so that a bad address is reported before anything else starts. The
// function it returns serves until its context ends.
func (o *mcpFlags) overHTTP(ctx context.Context, env *Env, log *slog.Logger, e mcpEndpoint) (func(context.Context) error, error) {
	access, err := o.access.options(log, e.tokens)
	if err != nil {
		return nil, err
	}
	access.MCP, access.Ready = true, e.ready
	srv, err := web.New(access)
	if err != nil {
		return nil, webFailure(err)
	}
	ln, err := srv.Listen(ctx, o.addr)
	if err != nil {
		return nil, webFailure(err)
	}
	srv.Handle(mcpPath, e.handler)
	for pattern, h := range e.routes {
		srv.Handle(pattern, h)
	}
	srv.OnShutdown(func(context.Context) error {
		e.closing()
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

// whileRunning runs run, which keeps a server up to date, and serve once ready is closed. If
// either ends, so does the other.
func whileRunning(ctx context.Context, run func(context.Context) error, ready <-chan struct{}, serve func(context.Context) error) error {
	running, working := errgroup.WithContext(ctx)
	running.Go(func() error {
		if err := run(working); working.Err() == nil {
			return cmp.Or(err, errStopped)
		}
		return nil
	})
	running.Go(func() error {
		select {
		case <-ready:
		case <-working.Done():
		}
		return cmp.Or(serve(working), errStopped)
	})
	err := running.Wait()
	if errors.Is(err, errStopped) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// errStopped ends the other parts of a command when one has ended without a failure.
var errStopped = errors.New("stopped")
