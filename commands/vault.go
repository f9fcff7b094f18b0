package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/vault"
	"github.com/mcptrack/mcptrack/output/web"
)

// mcpPath is where MCP is served over HTTP.
const mcpPath = "/mcp"

type vaultOptions struct {
	dir       string
	stdio     bool
	addr      string
	tokenFile string
	origins   []string
	ignore    []string
}

func newVault(env *Env, g *globals) *cobra.Command {
	var opts vaultOptions
	cmd := &cobra.Command{
		Use:   "vault DIR",
		Short: "Serve a folder of Markdown notes as live MCP resources",
		Long: `Is an MCP server over a folder of Markdown notes, such as an Obsidian vault. Clients
of both protocol eras read and search them, and are told when they change, whatever
program changed them:

  vault://recent?mode=&limit=&offset=   notes, the newest first
  vault://stats, vault://structure      how many files there are, and where
  vault://tags?mode=summary|full        tags and how often they are used
  vault://note/PATH                     a note; every note is listed
  vault://folder/PATH                   what is in a folder; tells of anything below

and the tools search_notes (words, tags) and read_note (with links and backlinks).

Hidden files and folders (.obsidian, .trash, .git) are no part of it, and neither is
what symbolic links lead to. Nothing is ever written.

Exit codes: 0 stopped, or the client left; 1 failed (no such folder, address taken);
2 wrong usage.`,
		Example: `  # In a config: {"mcpServers": {"notes": {"command": "mcptrack", "args": ["vault", "--stdio", "Notes"], "trackResources": true}}}
  mcptrack vault ~/Notes
  mcptrack vault ~/Notes --ignore 'drafts/**' --ignore '*.excalidraw.md'
  mcptrack vault ~/Notes --addr 0.0.0.0:8724 --token-file token`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.dir = args[0]
			if opts.stdio && (cmd.Flags().Changed("addr") || opts.tokenFile != "" || len(opts.origins) > 0) {
				return usage("--stdio has no use for --addr, --token-file and --allow-origin")
			}
			return runVault(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opts.stdio, "stdio", false, "serve one client over standard input and output")
	f.StringVar(&opts.addr, "addr", "127.0.0.1:8724", "`ADDRESS` to listen on; port 0 picks one")
	f.StringVar(&opts.tokenFile, "token-file", "", "`FILE` (mode 0600) with the token that clients must present")
	f.StringArrayVar(&opts.origins, "allow-origin", nil, "`ORIGIN` of a site whose pages may ask (repeatable)")
	f.StringArrayVar(&opts.ignore, "ignore", nil, "`GLOB` of paths that are no part of the vault (repeatable)")
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}

func runVault(ctx context.Context, env *Env, g *globals, opts vaultOptions) error {
	log := g.logger(env)
	s, err := vault.NewServer(vault.ServerOptions{
		Version: env.Version,
		Vault:   vault.Options{Dir: opts.dir, Ignore: opts.ignore, Logger: log},
	})
	if option, ok := errors.AsType[*vault.OptionError](err); ok {
		if option.Option == "ignore" {
			return usage("--%w", err)
		}
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // what could fail is memory that is given back
	serve := func(ctx context.Context) error { return s.ServeIO(ctx, env.In, env.Out) }
	if !opts.stdio {
		if serve, err = opts.overHTTP(ctx, env, log, s); err != nil {
			return err
		}
	}
	return whileRunning(ctx, s.Run, s.Ready(), serve)
}

// overHTTP listens at once, so that a bad address is told before the folder is read.
func (o *vaultOptions) overHTTP(ctx context.Context, env *Env, log *slog.Logger, s *vault.Server) (func(context.Context) error, error) {
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
	srv.Handle(mcpPath, s)
	srv.OnShutdown(func(context.Context) error {
		s.Server.Close() // ends streams with their results
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
