package gateway

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDecoding is how often a URI is decoded to find what a server may see in it that
// decodes it more than once.
const maxDecoding = 4

// uriForms returns the normal form of a URI, followed by those that it has when it is
// decoded again; and more forms that a lenient server may take it for: with slashes
// collapsed, without fragment, and for files without query. It reports false for a URI
// that has no normal form.
func uriForms(uri string) (forms, more []string, ok bool) {
	form, ok := normalizeURI(uri, false)
	if !ok {
		return nil, nil, false
	}
	forms = []string{form}
	for {
		next, ok := normalizeURI(form, true)
		if !ok || len(forms) > maxDecoding {
			return nil, nil, false
		}
		if next == form {
			break
		}
		form = next
		forms = append(forms, form)
	}
	for _, form := range forms {
		stem, _, _ := strings.Cut(form, "#")
		if strings.HasPrefix(form, "file:") {
			stem, _, _ = strings.Cut(stem, "?")
		}
		path := authorityEnd(stem)
		collapsed := stem[path:]
		for strings.Contains(collapsed, "//") {
			collapsed = strings.ReplaceAll(collapsed, "//", "/")
		}
		more = append(more, stem, stem[:path]+collapsed)
	}
	return forms, more, true
}

// normalizeURI returns the normal form of a URI (RFC 3986, 6.2.2 and 6.2.3): scheme and
// host in lower case, no host for local files, no default port, percent-encoded
// characters decoded and dot segments of the path removed. More is decoded than the RFC
// permits, as servers do: all but delimiters.
//
// A URI has no normal form without a scheme, with invalid UTF-8 or percent-encoding
// (unless lenient), or if its path has control characters, backslashes or encoded
// slashes.
func normalizeURI(uri string, lenient bool) (string, bool) {
	scheme := strings.ToLower(uri[:schemeEnd(uri)])
	if scheme == "" {
		return "", false
	}
	rest, ok := strings.CutPrefix(uri[len(scheme):], "//")
	authority := ""
	if ok {
		end := strings.IndexAny(rest+"/", "/?#")
		authority, rest = "//"+normalizeAuthority(scheme, rest[:end]), rest[end:]
	}
	end := strings.IndexAny(rest+"?", "?#")
	path, ok := decode(rest[:end], "?#", lenient)
	if !ok || strings.Count(path, "/") != strings.Count(rest[:end], "/") ||
		strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }) {
		return "", false
	}
	tail, ok := decode(rest[end:], "#&=+?", lenient)
	out := scheme + authority + removeDots(path) + tail
	return out, ok && utf8.ValidString(out)
}

// schemeEnd returns the length of the scheme of a URI with its colon (RFC 3986, 3.1); 0
// without a scheme.
func schemeEnd(uri string) int {
	for i, c := range []byte(uri) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		switch {
		case c == ':' && i > 0:
			return i + 1
		case !letter && (i == 0 || strings.IndexByte("0123456789+-.", c) < 0):
			return 0
		}
	}
	return 0
}

// authorityEnd returns where the path of a normalized URI begins.
func authorityEnd(uri string) int {
	scheme := strings.IndexByte(uri, ':') + 1
	if !strings.HasPrefix(uri[scheme:], "//") {
		return scheme
	}
	return scheme + 2 + strings.IndexAny(uri[scheme+2:]+"/", "/?#")
}

func normalizeAuthority(scheme, authority string) string {
	user := strings.LastIndexByte(authority, '@') + 1
	host := strings.ToLower(authority[user:])
	if scheme == "file:" && host == "localhost" {
		host = ""
	}
	for _, d := range []struct{ scheme, port string }{{"http:", ":80"}, {"ws:", ":80"}, {"https:", ":443"}, {"wss:", ":443"}, {scheme, ":"}} {
		if scheme == d.scheme {
			host = strings.TrimSuffix(host, d.port)
		}
	}
	return authority[:user] + host
}

// decode undoes percent-encoding, except of delimiters. It reports false for an invalid
// encoding, which stays as it is if lenient.
func decode(s, delimiters string, lenient bool) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			if strings.IndexByte(delimiters, c) >= 0 {
				b.WriteString(s[i : i+1])
				b.WriteString(strings.ToUpper(s[i+1 : i+3]))
				i += 2
				continue
			}
			i += 2
		} else if c == '%' && !lenient {
			return "", false
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// removeDots removes "." and ".." segments (RFC 3986, 5.2.4).
func removeDots(path string) string {
	if !strings.Contains(path, ".") {
		return path
	}
	segments := strings.Split(path, "/")
	var out []string
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".", "..":
			if n := len(out); s == ".." && n > 0 && !(n == 1 && out[0] == "") {
				out = out[:n-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	if strings.HasPrefix(path, "/") && (len(out) == 0 || out[0] != "") {
		out = append([]string{""}, out...)
	}
	return strings.Join(out, "/")
}

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

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}
