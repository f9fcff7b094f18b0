package commands

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
)

// tokenStoreKey is the environment variable with the default of --token-store.
const tokenStoreKey = "MCPTRACK_TOKEN_STORE"

// logins returns the user's logins; nil if the user has no folder for configs. An unknown
// kind in the environment counts as none.
func (e *Env) logins(g *globals, kind string, log *slog.Logger) *login.Store {
	dir := config.Options{Getenv: e.LookupEnv, UserHome: e.getenv("HOME")}.Folders().AppConfig
	if dir == "" {
		return nil
	}
	if kind == "" {
		kind = e.getenv(tokenStoreKey)
	}
	if !slices.Contains(tokenStores(), kind) {
		kind = ""
	}
	return login.NewStore(login.Options{Dir: filepath.Join(dir, "mcptrack", "logins"), Kind: login.Kind(kind), Logger: log, Flags: strings.Join(g.ofHost(), " ")})
}

func tokenStores() []string {
	return []string{string(login.KindKeyring), string(login.KindFile), string(login.KindMemory)}
}

// ownLogins is like logins, for a command that needs them: it fails if there is no folder for
// them.
func (e *Env) ownLogins(g *globals, kind string, log *slog.Logger) (*login.Store, error) {
	if kind != "" && !slices.Contains(tokenStores(), kind) {
		return nil, usage("unknown --token-store %q; choose %s", printable.Line(kind, 40), strings.Join(tokenStores(), ", "))
	}
	logins := e.logins(g, kind, log)
	if logins == nil {
		return nil, &failure{exit: exitFailed, code: "failed", err: errors.New("there is no home folder to keep logins in"), hint: "set HOME or XDG_CONFIG_HOME"}
	}
	return logins, nil
}

// loginsOptions are the options common to the commands about logins.
type loginsOptions struct {
	servers    []string // ids; none: all servers that a login is possible for
	timeout    time.Duration
	tokenStore string
	// sends says that requests are made to the servers, which the user must have approved.
	sends bool
	// choose returns the named servers of the config, or all without names.
	choose func(*config.Config, []string) ([]config.Server, error)
}

// withLogins runs a command with the user's logins and the chosen servers of the config,
// for at most the timeout.
func withLogins(cmd *cobra.Command, env *Env, g *globals, opts loginsOptions, run func(context.Context, *login.Store, []config.Server) error) error {
	if opts.timeout < 0 {
		return usage("--timeout must not be negative")
	}
	limit := connectFlags{timeout: opts.timeout}
	ctx, cancel := limit.bound(cmd.Context())
	defer cancel()
	cmd.SetContext(ctx)
	log := g.logger(env)
	logins, err := env.ownLogins(g, opts.tokenStore, log)
	if err != nil {
		return err
	}
	load := func() (*config.Config, error) { return g.read(env, log) }
	if opts.sends {
		load = func() (*config.Config, error) { return g.load(ctx, env, log) }
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

// oneOrAll checks the arguments of a command about one server, or with --all about all.
func oneOrAll(args []string, all bool) error {
	switch {
	case all && len(args) > 0:
		return usage("specify a server or --all, not both")
	case !all && len(args) == 0:
		return usageHint("mcptrack auth lists the servers", "specify a server or --all")
	}
	return nil
}

// loginServers returns the named servers of a config that a login is possible for; without
// names, all of them that are enabled. One that is named must be one of them.
func loginServers(cfg *config.Config, ids []string) ([]config.Server, error) {
	servers, err := selectServers(cfg, ids)
	if err != nil {
		return nil, err
	}
	var out []config.Server
	for _, srv := range servers {
		id := printable.Line(srv.ID, 128)
		switch {
		case srv.Transport == config.TransportStdio && len(ids) > 0:
			return nil, usageHint(`put its credentials into "env" in the config`, "server %q is a program on this machine; there is nothing to log in to", id)
		case ownHeader(srv) && len(ids) > 0:
			return nil, usageHint(`remove the header from the config to log in`, "server %q has an Authorization header in the config, which is used instead of a login", id)
		case srv.Transport != config.TransportStdio:
			out = append(out, srv)
		}
	}
	return out, nil
}

// ownHeader reports whether the config contains credentials for a server.
func ownHeader(srv config.Server) bool {
	for name := range srv.Headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

// completeLogins completes ids of servers that a login is possible for.
func completeLogins(env *Env, g *globals) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var ids []string
		cfg := completing(env, g)
		if servers, err := loginServers(cfg, nil); err == nil {
			for _, srv := range servers {
				ids = append(ids, srv.ID)
			}
		}
		return choices(ids, args)
	}
}
