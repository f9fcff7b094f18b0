package gateway

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A reading is a URI in normal form. Servers read it in one way, except for what lenient ones ignore.
type reading struct {
	// uri has the scheme and the host in lower case and no default port, and is percent-decoded except for
	// delimiters.
	uri string
	// loose has uri, and what it is for servers that ignore the user. For schemes that are not of the web it
	// also has the spellings for servers that ignore the query or the port, or that remove the scheme and
	// the slashes after it, so that "x://a/b", "x:///a/b" and "x:a/b" are the same.
	loose []string
}

// readURI returns how servers read a URI. ok is false if it is not in normal form, so that servers could read
// it in different ways: without a scheme, or without a host on the web; with a host or a query of a file; with
// an empty port, a fragment, a backslash or a control character; with an invalid percent-encoding, or one of a
// slash or of another percent-encoding; with a segment that is ".", ".." or empty; with a space at its end.
func readURI(uri string) (r reading, ok bool) {
	scheme := strings.ToLower(uri[:schemeEnd(uri)])
	authority, rest := cutAuthority(scheme, uri[len(scheme):])
	before, _, asks := strings.Cut(rest, "?")
	path, ok := plain(before, "?#")
	tail, ok2 := plain(rest[len(before):], "#&=+?")
	server := withoutPort(withoutUser(authority))
	segments := strings.Split(strings.TrimPrefix(server, "//")+path, "/")
	host := normalAuthority(scheme, authority)
	switch {
	case scheme == "", !ok, !ok2, !utf8.ValidString(authority), strings.ContainsFunc(authority, notOfHosts), strings.Contains(rest, "#"):
		return reading{}, false
	case strings.Count(path, "/") != strings.Count(before, "/"), strings.Contains(path, "//"), slices.ContainsFunc(segments, isDots):
		return reading{}, false
	case strings.HasSuffix(strings.TrimRight(path, "/"), " "), strings.HasSuffix(tail, " "), ofTheWeb(scheme) && len(host) <= len("//"), strings.HasSuffix(authority, ":"):
		return reading{}, false
	case scheme == "file:" && (asks || host != "//"):
		return reading{}, false
	}
	r.uri = scheme + host + path + tail
	r.loose = []string{r.uri}
	if ofTheWeb(scheme) {
		r.loose = append(r.loose, scheme+withoutUser(host)+path+tail)
		return r, true
	}
	for _, host := range []string{host, authority, withoutUser(authority), server} {
		for _, tail := range []string{tail, ""} {
			r.loose = append(r.loose, written(scheme, join(host+"/"+path)+tail)...)
		}
	}
	slices.Sort(r.loose)
	r.loose = slices.Compact(r.loose)
	return r, true
}

// cutAuthority splits what follows the scheme of a URI, or of a glob for URIs, into the authority with its
// slashes, if it has one, and the rest. "file:/a" and "file:a" are "file:///a" (RFC 8089).
func cutAuthority(scheme, s string) (authority, rest string) {
	after, has := strings.CutPrefix(s, "//")
	switch {
	case !has && scheme == "file:":
		return "//", "/" + strings.TrimPrefix(s, "/")
	case !has:
		return "", s
	}
	end := strings.IndexAny(after+"/", "/?#")
	return "//" + after[:end], after[end:]
}

// normalAuthority returns an authority in lower case, without a default port and without "localhost" of files.
func normalAuthority(scheme, authority string) string {
	authority = strings.ToLower(authority)
	switch scheme {
	case "http:", "ws:":
		return strings.TrimSuffix(authority, ":80")
	case "https:", "wss:":
		return strings.TrimSuffix(authority, ":443")
	case "file:":
		if authority == "//localhost" {
			return "//"
		}
	}
	return authority
}

// plain percent-decodes a part of a URI except for delimiters. ok is false if the result is not a plain text,
// or if decoding it again would change it.
func plain(s, delimiters string) (text string, ok bool) {
	text, ok = decode(s, delimiters, false)
	again, _ := decode(text, delimiters, true)
	return text, ok && text == again && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r == '\\' || unicode.IsControl(r) })
}

func isDots(segment string) bool { return segment == "." || segment == ".." }

// written returns how a URI of a scheme may be written, given what follows the slashes after the scheme. The
// first segment may be a host, whose case does not matter.
func written(scheme, rest string) (all []string) {
	for _, rest := range []string{rest, lowerFirst(rest)} {
		all = append(all, scheme+rest, scheme+"/"+rest, scheme+"//"+rest, scheme+"///"+rest)
	}
	return all
}

// join removes leading and trailing slashes and empty segments.
func join(path string) string {
	return strings.Join(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }), "/")
}

// lowerFirst converts the first segment of a path, or of a glob for a path, to lower case.
func lowerFirst(path string) string {
	depth := 0
	for i, c := range []byte(path) {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == '/' && depth == 0:
			return strings.ToLower(path[:i]) + path[i:]
		}
	}
	return strings.ToLower(path)
}

func withoutUser(authority string) string {
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		return "//" + authority[at+1:]
	}
	return authority
}

func withoutPort(authority string) string {
	if colon := strings.LastIndexByte(authority, ':'); colon > strings.LastIndexByte(authority, ']') {
		return authority[:colon]
	}
	return authority
}

// fold returns the same text for all texts that differ only in case.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, s)
}

// notOfHosts reports whether a character is invalid in a host. Some parsers decode or ignore such
// characters.
func notOfHosts(r rune) bool {
	return r <= ' ' || r == '\\' || r == '%' || unicode.IsControl(r)
}

// ofTheWeb reports whether web parsers recognise a host in every URI with this scheme.
func ofTheWeb(scheme string) bool {
	switch scheme {
	case "http:", "https:", "ws:", "wss:", "ftp:":
		return true
	}
	return false
}

// schemeEnd returns the length of a URI's scheme, including the colon (RFC 3986, 3.1), or 0 if
// there is no scheme.
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

// decode percent-decodes a text except for delimiters. ok is false if an encoding is invalid; if
// lenient is true, an invalid encoding is kept unchanged instead.
func decode(s, delimiters string, lenient bool) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' {
			switch n, err := strconv.ParseUint(s[i+1:min(i+3, len(s))], 16, 8); {
			case i+3 > len(s) || err != nil:
				if !lenient {
					return "", false
				}
			case strings.IndexByte(delimiters, byte(n)) >= 0:
				b.WriteString("%" + strings.ToUpper(s[i+1:i+3]))
				i += 2
				continue
			default:
				c = byte(n)
				i += 2
			}
		}
		b.WriteByte(c)
	}
	return b.String(), true
}
