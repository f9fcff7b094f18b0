package feed

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// maxGlobs bounds the globs of a query: all may be matched with every event.
const maxGlobs = 32

// filter says which events a client gets. An event passes if it matches at least one glob of
// each list that is not empty: of types, servers and URIs. Gaps pass every filter.
type filter struct{ types, servers, uris []string }

func parseFilter(q url.Values) (filter, error) {
	f := filter{types: split(q["type"]), servers: split(q["server"]), uris: q["uri"]}
	if n := len(f.types) + len(f.servers) + len(f.uris); n > maxGlobs {
		return filter{}, fmt.Errorf("the query has %d globs; at most %d are allowed", n, maxGlobs)
	}
	for _, g := range slices.Concat(f.types, f.servers, f.uris) {
		if !glob.Valid(g) {
			return filter{}, fmt.Errorf("invalid glob %q", printable.Line(g, 64))
		}
	}
	for _, glob := range f.types {
		if !slices.ContainsFunc(event.Types(), func(t event.Type) bool { return match(glob, string(t)) }) {
			return filter{}, fmt.Errorf("unknown event type %q", printable.Line(glob, 64))
		}
	}
	return f, nil
}

// split splits the values of a parameter at commas. It is not used for ?uri=, since URIs may
// contain commas: that parameter is repeated instead.
func split(values []string) []string {
	var out []string
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			out = append(out, strings.TrimSpace(part))
		}
	}
	return out
}

func (f *filter) none() bool { return len(f.types)+len(f.servers)+len(f.uris) == 0 }

func (f *filter) passes(fr *frame) bool {
	if fr.kind == event.TypeGap || f.none() {
		return true
	}
	return matchAny(f.types, string(fr.kind)) && matchAny(f.servers, fr.server) && matchAny(f.uris, fr.uri)
}

func matchAny(globs []string, s string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(glob string) bool { return match(glob, s) })
}

func match(g, s string) bool { return g == s || s != "" && glob.Match(g, s) }
