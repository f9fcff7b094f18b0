package gateway

import (
	"strings"
	"unicode/utf8"
)

// normalizeGlob normalizes a glob for URIs as far as it is literal, so that it matches
// normalized ones.
func normalizeGlob(glob string) string {
	scheme := strings.ToLower(glob[:schemeEnd(glob)])
	if scheme == "" {
		return glob
	}
	rest := glob[len(scheme):]
	if server, uri, ok := unqualify(scheme + rest); ok {
		return qualify(server, normalizeGlob(uri))
	}
	authority := ""
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		end := strings.IndexAny(after+"/", "/?#")
		authority, rest = "//"+normalizeAuthority(scheme, after[:end]), after[end:]
	} else if scheme == "file:" {
		authority, rest = "//", "/"+strings.TrimPrefix(rest, "/")
	}
	end := strings.IndexAny(rest+"#", "#")
	path := decodeGlob(rest[:end])
	if !strings.Contains(path, "**") {
		path = removeDots(path)
	}
	return scheme + authority + path + rest[end:]
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
