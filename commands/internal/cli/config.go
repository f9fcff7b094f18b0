package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/keyring"
	"github.com/mcptrack/mcptrack/core/printable"
)

// ConfigOptions returns the options for reading configs.
func (g *Globals) ConfigOptions(env *Env) config.Options {
	opts := config.Options{Getenv: env.LookupEnv, Keyring: keyring.Get, Workspace: g.Workspace, Insecure: g.insecure}
	if g.approved && g.Config != "" && !config.IsUsers(g.Config, opts) {
		opts.Workspace = cmp.Or(config.FolderOf(g.Config), filepath.Dir(g.Config))
	}
	return opts
}

// DefaultConfig is the path to which mcptrack init writes a config by default.
const DefaultConfig = "config/mcp-servers.json"

// ConfigPath returns the path of the config that the user specified or of the config selected by
// --host, and otherwise of the first config in the default locations.
func (g *Globals) ConfigPath(env *Env, log *slog.Logger) (string, error) {
	if g.Config != "" {
		return g.Config, nil
	}
	path, err := g.FindConfig(env)
	if err == nil {
		log.Info("config found", "file", path)
	} else if f, ok := errors.AsType[*Failure](err); ok {
		log.Info("no config found", "searched", f.Searched)
	}
	return path, err
}

// FindConfig returns the path of the config that --host selects, or of the first config in the
// default locations. It ignores --config.
func (g *Globals) FindConfig(env *Env) (string, error) {
	opts := g.ConfigOptions(env)
	path, ok := config.Found(opts)
	searched, what, hint := config.SearchPath, "config", initHint
	if h, named := hosts.Find(g.Host); named {
		path, ok = config.FindHost(h, opts)
		searched, what = func(config.Options) []string { return h.Paths(opts.Folders()) }, "config of "+h.Name
	}
	if ok {
		return path, nil
	}
	if names := hostsWithConfigs(opts); len(names) > 0 {
		have := "have configs"
		if len(names) == 1 {
			have = "has a config"
		}
		hint = fmt.Sprintf("%s %s here: mcptrack --host %s list, or mcptrack init", Join(names, 5), have, names[0])
	}
	places := searched(opts)
	return "", &Failure{Exit: ExitConfig, Code: "config_missing", Hint: hint, Searched: places,
		Err: fmt.Errorf("no %s found (searched %s; mcptrack help environment lists them)", what, Plural(len(places), "place"))}
}

// hostsWithConfigs returns the names of the hosts that have a config with servers here.
func hostsWithConfigs(opts config.Options) []string {
	var names []string
	for _, f := range config.HostFiles(opts) {
		if !slices.Contains(names, f.Host.Name) {
			names = append(names, f.Host.Name)
		}
	}
	return names
}

// OfHost returns the arguments with which another command reads the config of the same host; they
// are nil without --host.
func (g *Globals) OfHost() []string {
	if g.Host == "" {
		return nil
	}
	return []string{"--host", g.Host}
}

// configWords returns the flags with which another command line reads the same config, in whatever folder
// it runs, quoted for a shell; they are nil if the config was found without flags.
func (g *Globals) configWords() []string {
	words := g.OfHost()
	if g.Config != "" {
		words = append(words, "--config", absoluteWord(g.Config))
	}
	if g.insecure {
		words = append(words, "--insecure-config")
	}
	return words
}

// absoluteWord returns the absolute path of a file, quoted for a shell.
func absoluteWord(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return printable.Shell(path)
}

// Hints for a missing config.
const (
	initHint    = "run mcptrack init, or try mcptrack watch --demo; --config FILE names another config"
	missingHint = "check the file name; run mcptrack init FILE to create a config, or mcptrack watch FILE to wait for one"
)

// Load reads the config for a command that starts or contacts its servers. It asks the user to
// approve servers that are not approved yet.
func (g *Globals) Load(ctx context.Context, env *Env, log *slog.Logger) (*config.Config, error) {
	if g.demo {
		return demoConfig(env), nil
	}
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
	if cfg, err = p.Read(log, true); err != nil {
		return nil, err
	}
	return cfg, p.require(ctx, cfg, log) // the config may have changed while the user decided
}

// demoConfig returns a config with only the built-in server. When the server is started again, it
// continues what began now.
func demoConfig(env *Env) *config.Config {
	return &config.Config{Servers: []config.Server{config.Stdio("demo", env.Executable, "demo-server", "--began", time.Now().Format(time.RFC3339Nano))}}
}

// Read reads the config for a command that starts nothing and sends nothing. If the config is
// missing, the failure lists the searched locations; if it is invalid, it lists every problem.
func (g *Globals) Read(env *Env, log *slog.Logger) (*config.Config, error) {
	if g.demo {
		return demoConfig(env), nil
	}
	cfg, _, err := g.readConfig(env, log)
	return cfg, err
}

func (g *Globals) readConfig(env *Env, log *slog.Logger) (*config.Config, *Permission, error) {
	path, err := g.ConfigPath(env, log)
	if err != nil {
		return nil, nil, err
	}
	p, err := g.Permission(env, path)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := p.readApproved(log)
	return cfg, p, err
}

// invalidConfig returns the failure for a config that is missing, invalid or insecure.
func invalidConfig(path string, problems config.Problems) error {
	f := &Failure{Exit: ExitConfig, Code: "config_invalid", Err: problems,
		Hint: "mcptrack validate " + printable.Line(path, 200) + " shows all problems"}
	if problems.Has(config.CodeNotFound) {
		f.Code, f.Hint = "config_missing", missingHint
	}
	for _, p := range problems {
		if p.Code == config.CodeInsecure {
			f.Code, f.Err, f.Hint = "config_insecure", config.Problems{p}, p.Hint+"; --insecure-config reads it anyway"
		}
	}
	return f
}

// SelectServers returns the servers in a config with the given ids, or all enabled MCP servers if
// ids is empty. alternatives are other words that the user may have meant by an unknown id.
func SelectServers(cfg *config.Config, ids []string, alternatives ...string) ([]config.Server, error) {
	return selectServers(cfg, ids, false, alternatives)
}

// SelectServersAndCatalogs is like SelectServers, but includes HTTP catalogs.
func SelectServersAndCatalogs(cfg *config.Config, ids []string) ([]config.Server, error) {
	return selectServers(cfg, ids, true, nil)
}

func selectServers(cfg *config.Config, ids []string, catalogs bool, alternatives []string) ([]config.Server, error) {
	var chosen []config.Server
	if len(ids) == 0 {
		for _, srv := range cfg.Servers {
			if srv.Enabled && (catalogs || srv.Transport != config.TransportCatalog) {
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
			return nil, UnknownServer(cfg, id, alternatives)
		case !srv.Enabled:
			return nil, UsageHint("set \"enabled\": true in "+printable.Line(cfg.Path, 200), "server %q is disabled", printable.Line(id, 128))
		case srv.Transport == config.TransportCatalog && !catalogs:
			return nil, UsageHint("mcptrack gateway serves the tools of catalogs", "server %q is an HTTP catalog, not an MCP server", printable.Line(id, 128))
		case !seen[id]:
			seen[id] = true
			chosen = append(chosen, srv)
		}
	}
	return chosen, nil
}

// UnknownServer returns the failure for an id that is not in the config.
func UnknownServer(cfg *config.Config, id string, alternatives []string) error {
	var known []string
	for _, srv := range cfg.Servers {
		known = append(known, printable.Line(srv.ID, 64))
	}
	err := fmt.Errorf("the config has no server %q", printable.Line(id, 128))
	if len(known) == 0 {
		return &Failure{Exit: ExitConfig, Code: "config_missing", Err: err, Hint: initHint}
	}
	return &Failure{Exit: ExitUsage, Code: "unknown_server", Err: err, Hint: DidYouMean(id, slices.Concat(known, alternatives), "the config has: "+Join(known, 20))}
}
