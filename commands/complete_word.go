package commands

import (
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/printable"
)

// choices are the completions that are safe on a command line and not taken yet.
func choices(names []string, taken []string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, n := range names {
		if safeWord(n) && !slices.Contains(taken, n) {
			out = append(out, n)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// safeWord reports whether a completion means itself on the command line of every shell.
// The scripts evaluate the line at the next TAB, and names are chosen by servers: one
// such as x$(command) would run it. A word must not be a flag or help of ours either.
func safeWord(s string) bool {
	switch {
	case s == "", s != printable.Line(s, 0), strings.ContainsFunc(s, unicode.IsSpace),
		strings.ContainsAny(s, "$`();&|<>\\'\"!"), strings.ContainsAny(s[:1], "-~#="), strings.HasPrefix(s, "_activeHelp_"):
		return false
	}
	// Shells expand braces around a comma or a range, and so not those of URI templates.
	return !strings.ContainsAny(s, "{}") || !strings.Contains(s, ",") && !strings.Contains(s, "..")
}
