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

// ConfigForCompletion loads the config for shell completion. After an error it returns an empty
// config and logs nothing, because a message would garble the user's command line.
func ConfigForCompletion(env *Env, g *Globals) *config.Config {
	if g.Config == "" {
		g.Config = env.Getenv("MCPTRACK_CONFIG")
	}
	cfg, err := g.Read(env, slog.New(slog.DiscardHandler))
	if err != nil {
		return &config.Config{}
	}
	return cfg
}

// ServerNames returns the ids of the enabled MCP servers.
func ServerNames(cfg *config.Config) []string {
	servers, _ := SelectServers(cfg, nil) // fails only for unknown ids
	var ids []string
	for _, srv := range servers {
		ids = append(ids, srv.ID)
	}
	return ids
}

// CompleteServers completes a flag whose value is a comma-separated list of server ids.
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

// CompleteServerArgs completes the arguments of a command that takes servers.
func CompleteServerArgs(env *Env, g *Globals) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return Choices(ServerNames(ConfigForCompletion(env, g)), args)
	}
}

// Choices returns the names that are safe on a command line and are not in taken.
func Choices(names []string, taken []string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, n := range names {
		if safeWord(n) && !slices.Contains(taken, n) {
			out = append(out, n)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// safeWord reports whether every shell treats a completion literally. Completion scripts evaluate
// the line at the next Tab, and servers choose the names, so x$(command) would run the command.
// Words that look like a flag or like cobra's help marker are also rejected.
func safeWord(s string) bool {
	switch {
	case s == "", s != printable.Line(s, 0), strings.ContainsFunc(s, unicode.IsSpace),
		strings.ContainsAny(s, "$`();&|<>\\'\"!"), strings.ContainsAny(s[:1], "-~#="), strings.HasPrefix(s, "_activeHelp_"):
		return false
	}
	// Shells expand braces only around a comma or a range, and URI templates contain neither.
	return !strings.ContainsAny(s, "{}") || !strings.Contains(s, ",") && !strings.Contains(s, "..")
}
