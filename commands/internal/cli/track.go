package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Selection specifies which servers in a config are followed.
type Selection struct {
	Servers []string // globs for server ids; an empty list matches all
	All     bool     // follow every enabled server, even without a track key
}

// AddAllFlag adds the flag --all to a command that follows servers.
func AddAllFlag(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVar(all, "all", false, "follow all enabled servers, also those without a track key")
}

// Of returns the config reduced to the servers to follow.
func (s Selection) Of(cfg *config.Config) *config.Config {
	if s.All {
		cfg = WithAllTracked(cfg)
	}
	return cfg.Only(func(srv config.Server) bool {
		return srv.Tracked() && s.Matches(srv.ID)
	})
}

// Matches reports whether the selection includes a server with this id if it is followed.
func (s Selection) Matches(id string) bool { return len(s.Servers) == 0 || matchesAny(s.Servers, id) }

// WithAllTracked returns the config with tracking of everything enabled for all its servers.
func WithAllTracked(cfg *config.Config) *config.Config {
	out := cfg.With(slices.Clone(cfg.Servers))
	for i := range out.Servers {
		out.Servers[i].TrackAll()
	}
	return out
}

// Check logs a message with a hint if no server in the config is followed. If the command cannot
// wait for servers to be added, it returns the message as a failure instead.
func (s Selection) Check(cfg *config.Config, log *slog.Logger, wait bool) error {
	switch {
	case len(s.Of(cfg).Servers) > 0:
		return nil
	case !wait:
		return &Failure{Exit: ExitConfig, Code: "nothing_to_follow", Err: errors.New("there is no server to follow"), Hint: s.Hint(cfg)}
	}
	log.Warn("there is no server to follow yet", "file", cfg.Path, "hint", s.Hint(cfg))
	return nil
}

// Hint returns the hint for a config in which no server is followed.
func (s Selection) Hint(cfg *config.Config) string {
	if len(cfg.Servers) == 0 {
		return "the config has no servers; add one, or run mcptrack init to create a config"
	}
	var ids, off []string
	chosen, enabled := 0, 0
	for _, srv := range cfg.Servers {
		ids = append(ids, printable.Line(srv.ID, 64))
		if !s.Matches(srv.ID) {
			continue
		}
		chosen++
		switch {
		case srv.Enabled:
			enabled++
		case srv.TrackResources || srv.TrackTools || srv.TrackPrompts || srv.TrackSkills:
			off = append(off, printable.Line(srv.ID, 64))
		}
	}
	switch {
	case chosen == 0:
		return "--server matches no server in the config, which contains: " + Join(ids, 10)
	case len(off) == 1:
		return "server " + off[0] + " is disabled; enable it in the config"
	case len(off) > 1:
		return "the tracked servers are disabled; enable at least one in the config: " + Join(off, 10)
	case enabled == 0:
		return "all selected servers are disabled; enable at least one in the config"
	}
	if len(s.Servers) > 0 || cfg.Path == "" {
		return `set "trackResources": true on the servers to follow, or use --all`
	}
	return `set "trackResources": true in ` + printable.Line(cfg.Path, 200) + " on the servers to follow (" + Join(ids, 10) + "), or use --all"
}

// announce prints that all servers in a config are followed although none has a key that says so.
// picked is the part of the config that is followed.
func announce(env *Env, g *Globals, log *slog.Logger, cfg, picked *config.Config) {
	n := cfg.Tracked()
	if !cfg.TracksAll || n == 0 || len(picked.Servers) < n || g.Quiet { // if fewer are followed, the user chose them
		return
	}
	file, what := printable.Line(cfg.Path, 200), fmt.Sprintf("all %d servers", n)
	if slices.ContainsFunc(cfg.Servers, func(srv config.Server) bool { return !srv.Enabled }) {
		what = fmt.Sprintf("all %d enabled servers", n)
	}
	text := fmt.Sprintf("following %s of %s; none sets \"trackResources\"", what, file)
	if n == 1 {
		text = fmt.Sprintf("following the only server of %s; it does not set \"trackResources\"", file)
	}
	if g.logFormat == "json" {
		log.Log(context.Background(), g.level, text) // at a level that is shown
		return
	}
	fmt.Fprintln(env.Err, text)
}

// TrackFlags contains the flags that select what a command follows, and whether it follows changes
// to the config.
type TrackFlags struct {
	AllServers   bool
	NoFollow     bool
	HoldCommands bool
}

// AddReload adds the flags that control reloading of the config.
func (o *TrackFlags) AddReload(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.NoFollow, "no-follow-config", false, "ignore changes to the config file")
	f.BoolVar(&o.HoldCommands, "no-exec-on-reload", false, "start new or changed commands only after SIGHUP")
	for _, name := range []string{"no-follow-config", "no-exec-on-reload"} { // see mcptrack help config
		_ = f.MarkHidden(name)
	}
}

// Desired returns what an engine follows: the servers that pick selects from the loaded config and,
// unless the flags disable it, from later versions of the config file. It prints if all servers are
// followed because none has a key that says what to follow.
func (o *TrackFlags) Desired(env *Env, g *Globals, log *slog.Logger, cfg *config.Config, pick func(*config.Config) *config.Config) (engine.Desired, error) {
	if !o.AllServers {
		announce(env, g, log, cfg, pick(cfg))
	}
	d := engine.Desired{Config: cfg, Select: pick}
	kick := o.Reloads(env, g)
	if o.NoFollow || g.demo {
		return d, nil
	}
	c, err := g.Permission(env, cfg.Path)
	if err != nil {
		return d, err
	}
	d.Follow = &reload.Options{Path: cfg.Path, Config: g.ConfigOptions(env), Kick: kick, Hold: c.hold(cfg, o.HoldCommands), Logger: log}
	return d, nil
}

// Reloads returns a channel that receives requests to reread files, or nil if the config is not
// followed.
func (o *TrackFlags) Reloads(env *Env, g *Globals) <-chan struct{} {
	if o.NoFollow || g.demo {
		return nil
	}
	return env.reloads()
}

// NewUnstoredEngine creates an engine for a command that prints events as they happen and does not
// store them. lock may be nil.
func NewUnstoredEngine(ctx context.Context, d engine.Desired, opts tracker.Options, lock *engine.Lock) (*engine.Engine, error) {
	return engine.New(ctx, d, journal.NewMemory(journal.MemoryOptions{}), engine.Options{Tracker: opts, Lock: lock, Logger: opts.Logger})
}
