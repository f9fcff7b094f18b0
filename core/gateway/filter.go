package gateway

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// filter determines which items are exported, with globs for names, URIs and URI templates.
//
// In a glob for names, "*" matches any characters. In a glob for URIs, "*" matches within a path
// segment and "**" across segments. A filter with globs hides every URI that is not in normal form: see
// [readURI]. Allow must match how it is read, and Deny applies to every reading of lenient servers, too.
type filter struct {
	allow []globs // an item must match one glob of each
	deny  globs
	// foldFiles makes Deny case-insensitive for file: URIs.
	foldFiles bool
	alias     aliases // ids of the servers in qualified URIs
}

type globs struct {
	written     []string // as configured
	names, uris []string
	joined      []string // globs for [reading.loose], without the slashes after the scheme
	folded      []string // case-folded copies of uris and joined
}

func newFilter(allow, deny []string, foldFiles bool) (f filter, err error) {
	f.foldFiles = foldFiles
	if len(allow) > 0 {
		f.allow = make([]globs, 1)
		f.allow[0], err = newGlobs(allow)
	}
	if err == nil {
		f.deny, err = newGlobs(deny)
	}
	return f, err
}

func newGlobs(written []string) (globs, error) {
	into := globs{written: written}
	for _, g := range written {
		if !glob.Valid(g) {
			return globs{}, fmt.Errorf("invalid glob %q", printable.Line(g, 200))
		}
		into.names = append(into.names, flat(g))
		normal, joined := normalizeGlob(g)
		if schemeEnd(g) > 0 && slices.ContainsFunc(strings.FieldsFunc(normal, func(r rune) bool { return r == '/' || r == ':' }), isDots) {
			return globs{}, fmt.Errorf("invalid glob %q: no URI with . or .. is admitted", printable.Line(g, 200))
		}
		into.uris = append(into.uris, normal)
		into.joined = append(into.joined, joined...)
		for _, g := range append(joined, normal) {
			into.folded = append(into.folded, fold(g))
		}
	}
	return into, nil
}

// caseless reports whether the file systems of an operating system usually ignore case.
func caseless(goos string) bool { return goos == "darwin" || goos == "windows" }

// Filter sets globs in addition to [Options.Allow] and [Options.Deny], in place of those that it set before: an item must
// be admitted by both. It returns an error for an invalid glob. Clients are notified of lists that change.
func (g *Gateway) Filter(allow, deny []string) error {
	own, err := newFilter(g.opts.Allow, nil, false)
	if err != nil {
		return err
	}
	f, err := newFilter(allow, slices.Concat(g.opts.Deny, deny), caseless(runtime.GOOS))
	if err != nil {
		return err
	}
	f.allow, f.alias = append(own.allow, f.allow...), g.opts.Alias
	g.filter.Store(&f)
	g.kick()
	return nil
}

func (f filter) empty() bool { return len(f.allow) == 0 && len(f.deny.names) == 0 }

// admits reports whether an item may be exported under a name or URI.
//
// Deny also applies to the name that the server itself uses for the item, so that no exported name
// can evade it. Allow applies only to the exported name, which a server cannot choose freely.
func (f filter) admits(k catalog.Kind, t target, exported string) bool {
	switch {
	case f.empty():
		return true
	case k == catalog.Tools || k == catalog.Prompts:
		return !matches(f.deny.names, flat(exported)) && !matches(f.deny.names, flat(t.key)) &&
			!slices.ContainsFunc(f.allow, func(allow globs) bool { return !matches(allow.names, flat(exported)) })
	}
	is, ok := readURI(t.key)
	if !ok && k == catalog.Templates {
		is, ok = reading{t.key, []string{t.key}}, true // the URIs that it expands to are checked when they are used
	}
	return ok && !f.denies(t.server, is) && f.allows(t, exported, is)
}

// denies reports whether Deny matches any reading of a server's URI.
func (f filter) denies(server string, is reading) bool {
	for _, form := range is.loose {
		for _, form := range []string{form, f.alias.qualify(target{server, form})} {
			if matches(f.deny.uris, form) || matches(f.deny.joined, form) ||
				f.foldFiles && strings.HasPrefix(is.uri, "file:") && matches(f.deny.folded, fold(form)) {
				return true
			}
		}
	}
	return false
}

// allows reports whether Allow matches a URI.
func (f filter) allows(t target, exported string, is reading) bool {
	form := is.uri
	if exported != t.key {
		form = f.alias.qualify(target{t.server, form})
	}
	return !slices.ContainsFunc(f.allow, func(allow globs) bool { return !matches(allow.uris, form) })
}

// Unmatched returns the globs of the filter that match none of the items
// that the servers currently list.
func (g *Gateway) Unmatched() (allow, deny []string) {
	v := g.exports.Load()
	items := slices.Clone(v.filtered)
	for k, byKey := range v.byKey {
		for exported, t := range byKey {
			if t.server != "" {
				items = append(items, exportedItem{itemID{k, t}, exported})
			}
		}
	}
	now := g.filter.Load()
	admits := func(allow, deny []string) func(exportedItem) bool {
		f, _ := newFilter(allow, deny, now.foldFiles) // they are valid
		f.alias = g.alias()
		return func(it exportedItem) bool { return f.admits(it.kind, it.target, it.exported) }
	}
	for _, globs := range now.allow {
		for _, glob := range globs.written {
			if !slices.ContainsFunc(items, admits([]string{glob}, nil)) {
				allow = append(allow, glob)
			}
		}
	}
	for _, glob := range now.deny.written {
		if admits := admits(nil, []string{glob}); !slices.ContainsFunc(items, func(it exportedItem) bool { return !admits(it) }) {
			deny = append(deny, glob)
		}
	}
	return allow, deny
}

// flat replaces the slashes in a name, or in a glob for names, with NUL, which cannot occur in a
// name, because a slash in a name is an ordinary character.
func flat(s string) string { return strings.ReplaceAll(s, "/", "\x00") }

func matches(globs []string, s string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return glob.MatchURI(g, s) })
}

// normalizeGlob normalizes the literal parts of a glob for URIs, so that the glob matches
// normalized URIs. joined has the globs without the slashes after the scheme.
func normalizeGlob(g string) (normal string, joined []string) {
	if head, uri, ok := cutServer(g); ok {
		normal, joined = normalizeGlob(uri)
		if scheme := keptScheme(head); scheme != "" { // the scheme is in head
			normal = strings.TrimPrefix(normal, scheme)
			for i := range joined {
				joined[i] = strings.TrimPrefix(joined[i], strings.TrimSuffix(scheme, "//"))
			}
		}
		for i := range joined {
			joined[i] = head + joined[i]
		}
		return head + normal, joined
	}
	scheme := strings.ToLower(g[:schemeEnd(g)])
	if scheme == "" {
		return g, nil
	}
	authority, rest := cutAuthority(scheme, g[len(scheme):])
	path, _ := decode(rest, `*?[]{}\,/#%&=+`, true)
	if !ofTheWeb(scheme) {
		one := join(authority + "/" + path)
		joined = []string{scheme + one, scheme + lowerFirst(one)}
	}
	return scheme + normalAuthority(scheme, authority) + path, joined
}

// cutServer splits a glob for qualified URIs into the part before the server's own URI and the
// rest, as unqualify does for a URI. It does not decode the server's path segment.
func cutServer(g string) (head, uri string, ok bool) {
	scheme, rest, ok := cutQualified(g)
	if !ok {
		return "", "", false
	}
	server, uri, ok := strings.Cut(rest, "/")
	return g[:len(g)-len(rest)] + server + "/", scheme + uri, ok && uri != ""
}
