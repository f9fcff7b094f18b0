package cli

import (
	"log/slog"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// ConfigForCompletion loads the config for a completion. After an error it is empty, and nothing is
// logged: a message would garble the user's command line.
func ConfigForCompletion(env *Env, g *Globals) *config.Config {
	if g.Config == "" {
		g.Config = env.Getenv("MCPTRACK_CONFIG")
	}
	log := slog.New(slog.DiscardHandler)
	cfg, p, err := g.readConfig(env, log)
	if err != nil {
		return &config.Config{}
	}
	if _, trusted := p.trusted(); trusted {
		return cfg
	}
	for _, e := range p.Pending(cfg, log) { // pressing a key must not connect to these
		if i := slices.IndexFunc(cfg.Servers, func(s config.Server) bool { return s.Intent == e.Intent }); i >= 0 {
			cfg.Servers[i].Unapproved = p.hint()
		}
	}
	return cfg
}

// ServerNames returns the ids of the enabled MCP servers.
func ServerNames(cfg *config.Config) []string {
	servers, _ := SelectServers(cfg, nil) // only unknown ids are an error
	var ids []string
	for _, srv := range servers {
		ids = append(ids, srv.ID)
	}
	return ids
}

// CompleteServers completes a flag that takes server ids separated by commas.
func CompleteServers(env *Env, g *Globals) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		names := ServerNames(ConfigForCompletion(env, g))
		for i := range names {
			names[i] = before + names[i]
		}
		out, _ := Choices(names, nil)
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// Choices returns the completions that are safe on a command line and not yet taken.
func Choices(names []string, taken []string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, n := range names {
		if safeWord(n) && !slices.Contains(taken, n) {
			out = append(out, n)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// safeWord reports whether every shell takes a completion literally. Completion scripts evaluate the
// line at the next TAB, and servers choose the names: x$(command) would run the command. A flag or
// cobra's own help marker is not safe either.
func safeWord(s string) bool {
	switch {
	case s == "", s != printable.Line(s, 0), strings.ContainsFunc(s, unicode.IsSpace),
		strings.ContainsAny(s, "$`();&|<>\\'\"!"), strings.ContainsAny(s[:1], "-~#="), strings.HasPrefix(s, "_activeHelp_"):
		return false
	}
	// Shells expand braces only around a comma or a range, which URI templates lack.
	return !strings.ContainsAny(s, "{}") || !strings.Contains(s, ",") && !strings.Contains(s, "..")
}
