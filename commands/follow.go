package commands

import (
	"log/slog"
	"slices"
	"strings"

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
	out := &config.Config{Path: cfg.Path, Servers: slices.Clone(cfg.Servers)}
	if s.all {
		out = withAllTracked(cfg)
	}
	out.Servers = slices.DeleteFunc(out.Servers, func(srv config.Server) bool {
		return !srv.Tracked() || len(s.servers) > 0 && !matchesAny(s.servers, srv.ID)
	})
	return out
}

// withAllTracked returns the config with all changes of all its servers tracked.
func withAllTracked(cfg *config.Config) *config.Config {
	out := &config.Config{Path: cfg.Path, Servers: slices.Clone(cfg.Servers)}
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

// hint is the hint for a config in which no server is followed.
func (s selection) hint(cfg *config.Config) string {
	var ids []string
	known := len(s.servers) == 0
	for _, srv := range cfg.Servers {
		ids = append(ids, srv.ID)
		known = known || matchesAny(s.servers, srv.ID) // the server exists but is not tracked
	}
	switch {
	case !known && len(ids) > 0:
		return "--server matches no server of the config, which has: " + printable.Line(strings.Join(ids, ", "), 200)
	case s.all:
		return "no server of the config is enabled"
	}
	return `set "trackResources": true on the servers to follow, or use --all`
}
