package vault

import (
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

func unique(list []string, most int) []string {
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.Clip(list[:min(len(list), most)])
}

// titleOf returns the first of the texts that has a printable character, shortened.
func titleOf(texts ...string) string {
	for _, t := range texts {
		if t = shorten(t, maxTitle); t != "" {
			return t
		}
	}
	return "Untitled"
}

// shorten returns the beginning of a text on one line: white space is collapsed and hidden
// characters are removed.
func shorten(s string, runes int) string {
	line := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	s = line(printable.Visible(line(s)))
	for i := range s {
		if runes--; runes < 0 {
			return strings.TrimRight(s[:i], " ")
		}
	}
	return s
}
