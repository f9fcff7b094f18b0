package gateway

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// filter determines which items are exported, with globs for names, URIs and URI templates.
//
// In a glob for names, "*" matches any characters. In a glob for URIs, "*" matches within a path
// segment and "**" across segments. URIs and globs are compared in their normal and joined forms
// (see forms). A filter with globs hides every URI that has no normal form.
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
	joined      []string // globs that are matched against forms.joined
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
// can evade it, and to every form in which the server may interpret its URI. Allow applies only to
// the exported name, which a server cannot choose freely, and must match every such form.
func (f filter) admits(k catalog.Kind, t target, exported string) bool {
	switch {
	case f.empty():
		return true
	case k == catalog.Tools || k == catalog.Prompts:
		return !matches(f.deny.names, flat(exported)) && !matches(f.deny.names, flat(t.key)) &&
			!slices.ContainsFunc(f.allow, func(allow globs) bool { return !matches(allow.names, flat(exported)) })
	}
	is, ok := formsOf(t.key)
	if !ok && k == catalog.Templates {
		is, ok = forms{normal: []string{t.key}}, true // the URIs that it expands to are checked when they are used
	}
	return ok && !f.denies(t.server, is) && f.allows(t, exported, is)
}

// denies reports whether Deny matches any form of a server's URI.
func (f filter) denies(server string, is forms) bool {
	for _, form := range slices.Concat(is.normal, is.more) {
		for _, form := range []string{form, f.alias.qualify(target{server, form})} {
			if matches(f.deny.uris, form) || matches(f.deny.joined, form) {
				return true
			}
		}
		if f.foldFiles && strings.HasPrefix(form, "file:") &&
			(matches(f.deny.folded, fold(form)) || matches(f.deny.folded, fold(f.alias.qualify(target{server, form})))) {
			return true
		}
	}
	return false
}

// allows reports whether Allow matches all forms of a URI. For a joined form, it is sufficient to
// match one of its spellings.
func (f filter) allows(t target, exported string, is forms) bool {
	qualified := func(form string) string {
		if exported != t.key {
			return f.alias.qualify(target{t.server, form})
		}
		return form
	}
	return !slices.ContainsFunc(f.allow, func(allow globs) bool {
		return slices.ContainsFunc(is.normal, func(form string) bool { return !matches(allow.uris, qualified(form)) }) ||
			slices.ContainsFunc(is.joined, func(form string) bool {
				return !slices.ContainsFunc(written(form), func(form string) bool {
					return matches(allow.uris, qualified(form)) || matches(allow.joined, qualified(form))
				})
			})
	})
}

// Unmatched returns the globs of the filter that match none of the items
// that the servers currently list.
func (g *Gateway) Unmatched() (allow, deny []string) {
	v := g.view.Load()
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
// normalized URIs. joined contains the globs for joined forms; see forms.
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
	authority, rest := "", g[len(scheme):]
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		end := strings.IndexAny(after+"/", "/?#")
		authority, rest = "//"+after[:end], after[end:]
	} else if scheme == "file:" {
		authority, rest = "//", "/"+strings.TrimPrefix(rest, "/")
	}
	end := strings.IndexByte(rest+"#", '#')
	path := decodeGlob(rest[:end])
	if !ofTheWeb(scheme) {
		one := join(authority + "/" + path)
		for _, one := range unique(one, lowerFirst(one)) {
			if one == "" || glob.Valid(one) { // the glob is invalid if a dot segment was part of a {group}
				joined = append(joined, scheme+one+rest[end:])
			}
		}
	}
	if !strings.Contains(path, "**") {
		path = removeDots(path)
	}
	return scheme + normalizeAuthority(scheme, authority) + path + rest[end:], joined
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

// decodeGlob decodes percent-encoded characters that have no special meaning in globs or URIs.
func decodeGlob(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			if c := unhex(s[i+1])<<4 | unhex(s[i+2]); strings.IndexByte(`*?[]{}\,/#%&=+`, c) < 0 && c >= ' ' && c != 0x7f {
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	if !utf8.ValidString(b.String()) {
		return s
	}
	return b.String()
}
