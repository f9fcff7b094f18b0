package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/keyring"
	"github.com/mcptrack/mcptrack/core/printable"
)

// configOptions are the options with which configs are read.
func (g *globals) configOptions(env *Env) config.Options {
	return config.Options{Getenv: env.LookupEnv, Keyring: keyring.Get, Format: g.syntax, Workspace: g.workspace, Insecure: g.insecure}
}

// defaultConfig is where mcptrack init writes a config.
const defaultConfig = "config/mcp-servers.json"

// configPath is the path of the config: the one given by the user, or that of --host,
// else the first that exists in the default places.
func (g *globals) configPath(env *Env, log *slog.Logger) (string, error) {
	if g.config != "" {
		return g.config, nil
	}
	path, err := g.found(env)
	if err == nil {
		log.Info("config found", "file", path)
	}
	return path, err
}

// found is configPath for a config that the user did not name.
func (g *globals) found(env *Env) (string, error) {
	opts := g.configOptions(env)
	path, ok := config.Found(opts)
	searched := config.SearchPath
	if h, named := hosts.Find(g.host); named {
		path, ok = config.FindHost(h, opts)
		searched = func(config.Options) []string { return h.Paths(opts.Folders()) }
	}
	if !ok {
		return "", noConfig(searched(opts))
	}
	return path, nil
}

// ofHost is the flag with which another command reads the config of the same host; empty
// without --host.
func (g *globals) ofHost() []string {
	if g.host == "" {
		return nil
	}
	return []string{"--host", g.host}
}

// What to do without a config.
const (
	initHint    = "mcptrack init writes one from the configs of your editors; --config FILE names another"
	missingHint = "check the file name; mcptrack init FILE writes a config, and mcptrack watch FILE waits for one"
)

func noConfig(searched []string) error {
	return &failure{exit: exitConfig, code: "config_missing", hint: initHint, err: errors.New("no config found; searched"), places: searched}
}

// load reads the config for a command that starts or contacts what it says. It returns once the
// user has approved that, which it may ask for.
func (g *globals) load(ctx context.Context, env *Env, log *slog.Logger) (*config.Config, error) {
	cfg, p, err := g.readConfig(env, log)
	if err != nil {
		return nil, err
	}
	if err := p.require(ctx, cfg, log); err != nil {
		return nil, err
	}
	if !p.unread {
		return cfg, nil
	}
	if cfg, err = p.read(log, true); err != nil {
		return nil, err
	}
	return cfg, p.require(ctx, cfg, log) // it may have changed while the user thought
}

// read reads the config for a command that starts and sends nothing. One that is missing or
// invalid is a failure that lists the places searched or every problem.
func (g *globals) read(env *Env, log *slog.Logger) (*config.Config, error) {
	cfg, _, err := g.readConfig(env, log)
	return cfg, err
}

func (g *globals) readConfig(env *Env, log *slog.Logger) (*config.Config, *permission, error) {
	path, err := g.configPath(env, log)
	if err != nil {
		return nil, nil, err
	}
	p, err := g.permission(env, path)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := p.readApproved(log)
	return cfg, p, err
}

func invalidConfig(path string, problems config.Problems) error {
	f := &failure{exit: exitConfig, code: "config_invalid", err: problems,
		hint: "mcptrack validate-config " + printable.Line(path, 200) + " shows all problems"}
	if problems.Has(config.CodeNotFound) {
		f.code, f.hint = "config_missing", missingHint
	}
	for _, p := range problems {
		if p.Code == config.CodeInsecure {
			f.code, f.err, f.hint = "config_insecure", config.Problems{p}, p.Hint+"; --insecure-config reads it all the same"
		}
	}
	return f
}

// selectServers returns the named servers of a config, or all enabled ones that speak
// MCP. alternatives are words that might have been meant by an id that
// is not in the config.
func selectServers(cfg *config.Config, ids []string, alternatives ...string) ([]config.Server, error) {
	var chosen []config.Server
	if len(ids) == 0 {
		for _, srv := range cfg.Servers {
			if srv.Enabled && srv.Transport != config.TransportCatalog {
				chosen = append(chosen, srv)
			}
		}
		return chosen, nil
	}
	seen := map[string]bool{}
	for _, id := range ids {
		srv, ok := cfg.Server(id)
		switch {
		case !ok:
			return nil, unknownServer(cfg, id, alternatives)
		case !srv.Enabled:
			return nil, usageHint("set \"enabled\": true in "+printable.Line(cfg.Path, 200), "server %q is disabled", printable.Line(id, 128))
		case srv.Transport == config.TransportCatalog:
			return nil, usageHint("mcptrack gateway serves the tools of catalogs", "server %q is an HTTP catalog, not an MCP server", printable.Line(id, 128))
		case !seen[id]:
			seen[id] = true
			chosen = append(chosen, srv)
		}
	}
	return chosen, nil
}

func unknownServer(cfg *config.Config, id string, alternatives []string) error {
	var known []string
	for _, srv := range cfg.Servers {
		known = append(known, printable.Line(srv.ID, 64))
	}
	err := fmt.Errorf("the config has no server %q", printable.Line(id, 128))
	if len(known) == 0 {
		return &failure{exit: exitConfig, code: "config_missing", err: errors.Join(err), hint: initHint}
	}
	return &failure{exit: exitUsage, code: "unknown_server", err: err, hint: didYouMean(id, slices.Concat(known, alternatives), "the config has: "+join(known, 20))}
}

// join lists at most limit names and says how many more there are.
func join(names []string, limit int) string {
	out := ""
	for i, n := range names {
		if i == limit {
			return out + fmt.Sprintf(" and %d more", len(names)-i)
		}
		if i > 0 {
			out += ", "
		}
		out += n
	}
	return out
}
