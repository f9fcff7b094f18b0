package gateway

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDecoding is how often a URI is percent-decoded at most. A server that decodes a URI
// more than once may see another one in it, which the filter must see, too.
const maxDecoding = 4

// uriForms returns the normal form of a URI, followed by those that it has when it is
// decoded again; and more forms that a lenient server may take it for: with slashes
// collapsed, without fragment, user and spaces at the end, and for files without query and
// host. It reports false for a URI that has no normal form.
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
		stem = strings.TrimRight(stem, " ")
		base, path := withoutUser(stem)
		collapsed := path
		for strings.Contains(collapsed, "//") {
			collapsed = strings.ReplaceAll(collapsed, "//", "/")
		}
		more = append(more, stem, base+path, base+collapsed)
	}
	return forms, more, true
}

// withoutUser splits a normalized URI before its path, and leaves out the user, and for
// files the host.
func withoutUser(uri string) (base, path string) {
	end := authorityEnd(uri)
	base, path = uri[:end], uri[end:]
	if scheme, authority, ok := strings.Cut(base, "//"); ok {
		authority = authority[strings.LastIndexByte(authority, '@')+1:]
		if scheme == "file:" {
			authority = ""
		}
		base = scheme + "//" + authority
	}
	return base, path
}

// normalizeURI returns the normal form of a URI (RFC 3986, 6.2.2 and 6.2.3): scheme and
// host in lower case, no host for local files, no default port, percent-encoded
// characters decoded and dot segments of the path removed. More is decoded than the RFC
// permits, as servers do: all but delimiters. "file:/a" and "file:a" are "file:///a", as
// browsers and RFC 8089 have it.
//
// A URI has no normal form without a scheme, with invalid UTF-8 or percent-encoding
// (unless lenient), if its path has control characters, backslashes or encoded slashes, if
// its authority has characters that no host has, or if its scheme is one of the web and it
// has no host.
func normalizeURI(uri string, lenient bool) (string, bool) {
	scheme := strings.ToLower(uri[:schemeEnd(uri)])
	if scheme == "" {
		return "", false
	}
	rest, ok := strings.CutPrefix(uri[len(scheme):], "//")
	authority := ""
	if ok {
		end := strings.IndexAny(rest+"/", "/?#")
		if strings.ContainsFunc(rest[:end], notOfHosts) {
			return "", false
		}
		authority, rest = "//"+normalizeAuthority(scheme, rest[:end]), rest[end:]
	}
	switch {
	case scheme == "file:" && !ok:
		authority, rest = "//", "/"+strings.TrimPrefix(rest, "/")
	case len(authority) <= len("//") && ofTheWeb(scheme):
		return "", false
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

// notOfHosts reports characters that a host never has, and that some parsers decode or drop.
func notOfHosts(r rune) bool {
	return r <= ' ' || r == '\\' || r == '%' || unicode.IsControl(r)
}

// ofTheWeb reports whether parsers of the web find a host in any URI of the scheme.
func ofTheWeb(scheme string) bool {
	switch scheme {
	case "http:", "https:", "ws:", "wss:", "ftp:":
		return true
	}
	return false
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
