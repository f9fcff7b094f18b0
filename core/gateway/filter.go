package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// filter decides what is exported, by globs for names, URIs and URI templates.
//
// In a glob for names "*" matches any characters. In a glob for URIs "*" matches within a
// path segment and "**" across segments. URIs are compared in their normal form (see
// normalizeURI); a filter with globs does not export a URI that has none.
type filter struct{ allow, deny globs }

type globs struct{ names, uris []string }

func newFilter(allow, deny []string) (filter, error) {
	var f filter
	for _, list := range []struct {
		globs []string
		into  *globs
	}{{allow, &f.allow}, {deny, &f.deny}} {
		for _, g := range list.globs {
			if !glob.Valid(g) {
				return filter{}, fmt.Errorf("invalid glob %q", printable.Line(g, 200))
			}
			list.into.names = append(list.into.names, flat(g))
			list.into.uris = append(list.into.uris, normalizeGlob(g))
		}
	}
	return f, nil
}

func (f filter) empty() bool { return len(f.allow.names) == 0 && len(f.deny.names) == 0 }

// admits reports whether an item may be exported under a name or URI. Deny applies to the
// server's own name of the item as well, so that no exported name evades it. Allow applies
// only to the exported name, which a server cannot choose freely.
func (f filter) admits(k catalog.Kind, t target, exported string) bool {
	switch {
	case f.empty():
		return true
	case k == catalog.Tools || k == catalog.Prompts:
		return !matches(f.deny.names, flat(exported)) && !matches(f.deny.names, flat(t.key)) &&
			(len(f.allow.names) == 0 || matches(f.allow.names, flat(exported)))
	}
	forms, more, ok := uriForms(t.key)
	if !ok && k == catalog.Templates {
		forms, ok = []string{t.key}, true // the URIs that it expands to are checked when used
	}
	if !ok {
		return false
	}
	for _, form := range slices.Concat(forms, more) {
		if matches(f.deny.uris, form) || matches(f.deny.uris, qualify(t.server, form)) {
			return false
		}
	}
	return len(f.allow.uris) == 0 || !slices.ContainsFunc(forms, func(form string) bool {
		if exported != t.key {
			form = qualify(t.server, form)
		}
		return !matches(f.allow.uris, form)
	})
}

// flat hides the slashes of a name or its glob, which are ordinary characters there.
// NUL cannot occur in a name.
func flat(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

func matches(globs []string, s string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return glob.MatchURI(g, s) })
}
