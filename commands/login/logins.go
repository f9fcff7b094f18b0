package login

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
)

// sharedOptions contains the options that all login commands share.
type sharedOptions struct {
	servers    []string // server ids; empty selects all servers that support a login
	timeout    time.Duration
	tokenStore string
	// sends means that the command sends requests to the servers, which therefore need the user's
	// approval.
	sends bool
	// choose returns the servers in the config with the given ids, or all suitable servers if there
	// are no ids.
	choose func(*config.Config, []string) ([]config.Server, error)
}

// withLogins calls run with the user's logins and the selected servers. The context of run ends
// when the timeout expires.
func withLogins(cmd *cobra.Command, env *cli.Env, g *cli.Globals, opts sharedOptions, run func(context.Context, *login.Store, []config.Server) error) error {
	if opts.timeout < 0 {
		return cli.Usage("--timeout must not be negative")
	}
	limit := cli.ConnectFlags{Timeout: opts.timeout}
	ctx, cancel := limit.Bound(cmd.Context())
	defer cancel()
	cmd.SetContext(ctx)
	log := g.Logger(env)
	if err := cli.OneOf("token-store", opts.tokenStore, cli.TokenStores()...); err != nil && opts.tokenStore != "" {
		return err
	}
	logins := env.Logins(g, opts.tokenStore, log)
	if logins == nil {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "failed", Err: errors.New("there is no home folder to store logins in"), Hint: "set HOME or XDG_CONFIG_HOME"}
	}
	load := func() (*config.Config, error) { return g.Read(env, log) }
	if opts.sends {
		load = func() (*config.Config, error) { return g.Load(ctx, env, log) }
	}
	cfg, err := load()
	if err != nil {
		return err
	}
	servers, err := opts.choose(cfg, opts.servers)
	if err != nil {
		return err
	}
	return run(ctx, logins, servers)
}

// oneOrAll checks that either a server or --all is specified.
func oneOrAll(args []string, all bool) error {
	switch {
	case all && len(args) > 0 || len(args) > 1:
		return cli.Usage("specify one server, or --all")
	case !all && len(args) == 0:
		return cli.UsageHint("mcptrack login --list lists the servers", "specify a server or --all")
	}
	return nil
}

// loginServers returns the servers with the given ids, which must support a login, or all enabled
// servers that support one if there are no ids.
func loginServers(cfg *config.Config, ids []string) ([]config.Server, error) {
	servers, err := cli.SelectServers(cfg, ids)
	if err != nil {
		return nil, err
	}
	var out []config.Server
	for _, srv := range servers {
		id := printable.Line(srv.ID, 128)
		switch {
		case srv.Transport == config.TransportStdio && len(ids) > 0:
			return nil, cli.UsageHint(`put its credentials into "env" in the config`, "server %q is a program on this machine; there is nothing to log in to", id)
		case ownHeader(srv) && len(ids) > 0:
			return nil, cli.UsageHint(`remove the header from the config to log in`, "server %q has an Authorization header in the config, which is used instead of a login", id)
		case srv.Transport != config.TransportStdio:
			out = append(out, srv)
		}
	}
	return out, nil
}

// ownHeader reports whether the config contains the credentials for a server.
func ownHeader(srv config.Server) bool {
	for name := range srv.Headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// completeLogins completes the ids of servers that support a login.
func completeLogins(env *cli.Env, g *cli.Globals) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var ids []string
		cfg := cli.ConfigForCompletion(env, g)
		if servers, err := loginServers(cfg, nil); err == nil {
			for _, srv := range servers {
				ids = append(ids, srv.ID)
			}
		}
		return cli.Choices(ids, args)
	}
}
