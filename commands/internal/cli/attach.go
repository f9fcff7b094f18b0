package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/daemon/attach"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Attached reports whether an entry stands for a server that the daemon runs: it is what mcptrack connect
// writes, or another one that runs mcptrack attach.
func Attached(srv config.Server) bool {
	u, err := url.Parse(srv.URL.Reveal())
	return srv.Attaches() || err == nil && strings.HasPrefix(u.Path, daemon.MCPPath) && u.Query().Has("config") && u.Query().Has("folder")
}

// SelectAttached returns the server that mcptrack attach SERVER serves with a config.
func SelectAttached(cfg *config.Config, server string) (config.Server, error) {
	chosen, err := SelectServers(cfg, []string{server})
	if err != nil {
		return config.Server{}, err
	}
	if chosen[0].Attaches() {
		return config.Server{}, &Failure{Exit: ExitConfig, Code: "attaches", Err: fmt.Errorf("server %q in %s runs mcptrack attach itself", printable.Line(server, 128), printable.Line(cfg.Path, 200)),
			Hint: "--config FILE names the config with the server's own command; mcptrack connect moves it there"}
	}
	return chosen[0], nil
}

// attachment returns what an entry that runs mcptrack attach serves; false if that is not one server.
func attachment(env *Env, srv config.Server) (opts attach.Options, ok bool) {
	if !srv.Attaches() {
		return opts, false
	}
	args := slices.Clone(srv.Args)
	if i := slices.Index(args, "attach"); srv.Runs("attach") {
		args = slices.Delete(args, i, i+1)
	}
	opts, err := attach.Parse(args, func(name string) string {
		value, _ := environOf(env, srv)(name)
		return value
	})
	if opts.Config != "" && !filepath.IsAbs(opts.Config) {
		opts.Config = filepath.Join(srv.Dir, opts.Config)
	}
	return opts, err == nil && opts.Server != ""
}

// environOf returns a function that looks up a variable for a program that an entry starts.
func environOf(env *Env, srv config.Server) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if value, ok := srv.Env[name]; ok {
			return value.Reveal(), true
		}
		return env.LookupEnv(name)
	}
}

// Through returns a config in which each entry that runs mcptrack attach is replaced by the server behind it, with the
// entry's id, so that a command shows what a host gets: if the daemon would refuse to serve it, the server is not
// configured, and the reason is what it lacks. One step is taken, like the daemon does, so entries that
// refer to each other are no loop. An entry for all servers of a config, or with a URL of the daemon, stays.
func (g *Globals) Through(ctx context.Context, env *Env, cfg *config.Config) *config.Config {
	servers := slices.Clone(cfg.Servers)
	for i, srv := range servers {
		servers[i], _ = g.behind(ctx, env, srv)
	}
	return cfg.With(servers)
}

// behind returns the server behind an entry, and the flags with which its config is read; or the entry
// and nil if no single server is behind it.
func (g *Globals) behind(ctx context.Context, env *Env, srv config.Server) (config.Server, *Globals) {
	if !srv.Enabled || srv.Unusable() != nil {
		return srv, nil
	}
	opts, ok := attachment(env, srv)
	if !ok {
		return srv, nil
	}
	theirs := &Env{Out: io.Discard, Err: io.Discard, LookupEnv: environOf(env, srv), Executable: env.Executable, Dial: env.Dial, Version: env.Version}
	of := g.ForClient(opts.Config, opts.Host, srv.Dir, opts.Approved)
	cfg, err := (*config.Config)(nil), of.CheckHost()
	if err == nil {
		cfg, err = of.Load(ctx, theirs, slog.New(slog.DiscardHandler))
	}
	var behind config.Server
	if err == nil {
		behind, err = SelectAttached(cfg, opts.Server)
	}
	if err != nil {
		behind = srv
		f := Classify(ctx, err)
		if reason := printable.Reason(f.Err, 500); f.Code == "config_untrusted" {
			behind.Unapproved = cmp.Or(f.Hint, reason)
		} else {
			behind.Missing = []string{"mcptrack attach: " + reason}
		}
	}
	behind.ID = srv.ID
	return behind, of
}

// followed returns the flags of the config that a daemon follows for the command: its own or, if all its
// servers are attached, the one behind them.
func (g *Globals) followed(ctx context.Context, env *Env) *Globals {
	if g.lastRead == nil {
		none := slog.New(slog.DiscardHandler)
		path, err := g.ConfigPath(env, none)
		if err != nil {
			return g
		}
		p, err := g.Permission(env, path)
		if err != nil {
			return g
		}
		if _, err := p.Read(none, false); err != nil {
			return g
		}
	}
	var all *Globals
	for _, srv := range g.lastRead.Servers {
		if !srv.Enabled {
			continue
		}
		_, of := g.behind(ctx, env, srv)
		if of == nil || all != nil && (of.Config != all.Config || of.Host != all.Host) {
			return g
		}
		all = of
	}
	return cmp.Or(all, g)
}
