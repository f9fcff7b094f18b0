package commands

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// defaultConfig is where a config is expected when none is found or named.
var defaultConfig = filepath.Join("config", "mcp-servers.json")

// configOptions is the environment that configs are read in.
func configOptions(env *Env) config.Options { return config.Options{Getenv: env.LookupEnv} }

// configPath is the config to use: the one that was named, or the first of the
// usual places. named is false when there is none in either.
func (g *globals) configPath(env *Env, log *slog.Logger) (path string, found bool) {
	if g.config != "" {
		return g.config, true
	}
	path, ok := config.Find(configOptions(env))
	if !ok {
		return defaultConfig, false
	}
	log.Info("config found", "file", path)
	return path, true
}

// load reads the config. A config in none of the usual places is an empty one,
// with a warning; one that was named and is missing or invalid is a failure that
// shows every problem.
func (g *globals) load(env *Env, log *slog.Logger) (*config.Config, error) {
	path, found := g.configPath(env, log)
	if !found {
		log.Warn("no config found; there are no servers to follow", "expected", path, "hint", "mcptrack help environment lists the places")
		return &config.Config{Path: path}, nil
	}
	return loadFile(env, log, path)
}

func loadFile(env *Env, log *slog.Logger, path string) (*config.Config, error) {
	cfg, problems := config.Load(path, configOptions(env))
	if cfg == nil {
		return nil, invalidConfig(path, problems)
	}
	for _, p := range problems {
		log.Info("config", "problem", p.String())
	}
	return cfg, nil
}

func invalidConfig(path string, problems config.Problems) error {
	f := &failure{exit: exitConfig, code: "config_invalid", err: problems,
		hint: "mcptrack validate-config " + printable.Line(path, 200) + " shows all problems"}
	if problems.Has(config.CodeNotFound) {
		f.code, f.hint = "config_missing", "name a config with --config FILE or MCPTRACK_CONFIG"
	}
	return f
}

// selectServers picks the named servers of a config, or all that are enabled and
// can be connected to.
func selectServers(cfg *config.Config, ids []string) ([]config.Server, error) {
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
			return nil, unknownServer(cfg, id)
		case !srv.Enabled:
			return nil, usageHint("set \"enabled\": true in "+printable.Line(cfg.Path, 200), "server %q is disabled", printable.Line(id, 128))
		case srv.Transport == config.TransportCatalog:
			return nil, usageHint("mcptrack gateway serves its tools", "server %q is an HTTP catalog, not an MCP server", printable.Line(id, 128))
		case !seen[id]:
			seen[id] = true
			chosen = append(chosen, srv)
		}
	}
	return chosen, nil
}

func unknownServer(cfg *config.Config, id string) error {
	var known []string
	for _, srv := range cfg.Servers {
		known = append(known, printable.Line(srv.ID, 64))
	}
	err := fmt.Errorf("the config has no server %q", printable.Line(id, 128))
	if len(known) == 0 {
		return &failure{exit: exitConfig, code: "config_missing", err: errors.Join(err), hint: "name a config with --config FILE or MCPTRACK_CONFIG"}
	}
	return &failure{exit: exitUsage, code: "unknown_server", err: err, hint: "it has: " + join(known, 20)}
}

// join lists names for a person, and says how many it leaves out.
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
