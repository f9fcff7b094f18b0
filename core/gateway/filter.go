package gateway

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/mcptrack/mcptrack/core/printable"
)

// filter says what is exported: globs over names, URIs and URI templates.
type filter struct{ allow, deny []string }

func newFilter(allow, deny []string) (filter, error) {
	for _, globs := range [][]string{allow, deny} {
		for _, g := range globs {
			if !doublestar.ValidatePattern(g) {
				return filter{}, fmt.Errorf("%q is no glob", printable.Line(g, 200))
			}
		}
	}
	return filter{allow, deny}, nil
}

// admits reports whether what is exported under the key, and is called original by
// its server, may be seen. A denial holds whatever it is exported as; what another
// server calls its items allows nothing.
func (f filter) admits(exported, original string) bool {
	if matches(f.deny, exported) || matches(f.deny, original) {
		return false
	}
	return len(f.allow) == 0 || matches(f.allow, exported)
}

func matches(globs []string, s string) bool {
	for _, g := range globs {
		if g == s || doublestar.MatchUnvalidated(g, s) {
			return true
		}
		// "file:///**" is meant to cross everything, also the empty segments of
		// "file:///a//b", and a URI ending in a slash.
		if prefix, ok := strings.CutSuffix(g, "**"); ok && !strings.ContainsAny(prefix, `*?[{\`) && strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}
