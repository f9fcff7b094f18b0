package gateway

import (
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/glob"
)

// normalizeGlob normalizes a glob for URIs as far as it is literal, so that it matches
// normalized ones. joined are the globs for joined forms, see forms.
func normalizeGlob(g string) (normal string, joined []string) {
	if head, uri, ok := cutServer(g); ok {
		normal, joined = normalizeGlob(uri)
		if head[:len(uiScheme)] == uiScheme { // the scheme is in the head
			normal = strings.TrimPrefix(normal, uiScheme)
			for i := range joined {
				joined[i] = strings.TrimPrefix(joined[i], "ui:")
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
			if glob.Valid(one) { // not if a dot segment was part of a group
				joined = append(joined, scheme+one+rest[end:])
			}
		}
	}
	if !strings.Contains(path, "**") {
		path = removeDots(path)
	}
	return scheme + normalizeAuthority(scheme, authority) + path + rest[end:], joined
}

// cutServer splits a glob for URIs that name their server before the URI, as unqualify does, but
// leaves the segment of the server as it is.
func cutServer(g string) (head, uri string, ok bool) {
	for own, scheme := range map[string]string{ownForm: "", ownUIForm: uiScheme} {
		if rest, is := strings.CutPrefix(g, own); is {
			server, uri, ok := strings.Cut(rest, "/")
			return own + server + "/", scheme + uri, ok && uri != ""
		}
	}
	return "", "", false
}

// decodeGlob undoes percent-encoding of what has no meaning in a glob or a URI.
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
