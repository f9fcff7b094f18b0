package commands

import (
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// A selection says which servers of a config are followed.
type selection struct {
	servers []string // globs over ids; none match all
	all     bool     // every enabled server, whatever its entry says
}

// addAllFlag adds --all to a command that follows servers.
func addAllFlag(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVar(all, "all", false, "follow all enabled servers, not only those with \"trackResources\"")
}

// of returns the config with only the servers to follow.
func (s selection) of(cfg *config.Config) *config.Config {
	if s.all {
		cfg = withAllTracked(cfg)
	}
	return cfg.Only(func(srv config.Server) bool {
		return srv.Tracked() && (len(s.servers) == 0 || matchesAny(s.servers, srv.ID))
	})
}

// withAllTracked returns the config with all changes of all its servers tracked.
func withAllTracked(cfg *config.Config) *config.Config {
	out := cfg.With(slices.Clone(cfg.Servers))
	for i := range out.Servers {
		if srv := &out.Servers[i]; srv.Transport != config.TransportCatalog {
			srv.TrackResources, srv.TrackTools, srv.TrackPrompts = true, true, true
		}
	}
	return out
}

// warnNone logs that nothing of the config is followed and what to do about it.
func (s selection) warnNone(log *slog.Logger, cfg *config.Config) {
	log.Warn("there is no server to follow yet", "file", cfg.Path, "hint", s.hint(cfg))
}

// hint returns the hint for a config in which no server is followed.
func (s selection) hint(cfg *config.Config) string {
	if len(cfg.Servers) == 0 {
		return "the config has no servers; add one, or let mcptrack init write a config"
	}
	var ids, off []string
	chosen, enabled := 0, 0
	for _, srv := range cfg.Servers {
		ids = append(ids, printable.Line(srv.ID, 64))
		if len(s.servers) > 0 && !matchesAny(s.servers, srv.ID) {
			continue
		}
		chosen++
		switch {
		case srv.Enabled:
			enabled++
		case srv.TrackResources || srv.TrackTools || srv.TrackPrompts:
			off = append(off, printable.Line(srv.ID, 64))
		}
	}
	switch {
	case chosen == 0:
		return "--server matches no server of the config, which has: " + join(ids, 10)
	case len(off) == 1:
		return "server " + off[0] + " is disabled; enable it in the config"
	case len(off) > 1:
		return "the tracked servers are disabled; enable at least one in the config: " + join(off, 10)
	case enabled == 0:
		return "all selected servers are disabled; enable at least one in the config"
	}
	return `set "trackResources": true on the servers to follow, or use --all`
}
