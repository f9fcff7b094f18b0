package gateway

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDecoding is how many times a URI is percent-decoded. A server that decodes a URI more than
// once may interpret it as another URI, which the filter must check, too.
const maxDecoding = 4

// forms holds the URIs that a server may read when it is given one URI.
type forms struct {
	// normal contains the normal form (see parts.String), and the normal forms after further
	// decoding.
	normal []string
	// more contains the forms that lenient servers may read: with slashes collapsed; without
	// fragment, user and trailing spaces; for files, without query and host; and all spellings of
	// the joined forms.
	more []string
	// joined contains the forms for a server that removes only the scheme and the slashes after it,
	// and thus reads authority and path as one path, without dot segments. Such a server treats
	// "x://a/b", "x:///a/b", "x:a/b" and "x://c/../a/b" as the same resource. Web URIs have no
	// joined forms, because every parser recognises their host.
	joined []string
}

// formsOf returns the forms of a URI. ok is false if the URI has no normal form.
func formsOf(uri string) (f forms, ok bool) {
	first, ok := parseURI(uri)
	if ok {
		first, ok = first.decoded(false)
	}
	if !ok {
		return forms{}, false
	}
	// A server may remove dot segments each time before it decodes again, or only at the end.
	dots := false
	for _, early := range []bool{false, true} {
		at := first
		for depth := 0; ; depth++ {
			f.normal = append(f.normal, at.String())
			f.more = append(f.more, at.lenient()...)
			f.joined = append(f.joined, at.joined(at.authority, at.tail)...)
			without := removeDots(at.path)
			dots = dots || without != at.path
			if early {
				at.path = without
			}
			next, ok := at.decoded(true)
			if !ok || depth == maxDecoding {
				return forms{}, false
			}
			if next == at {
				break
			}
			at = next
		}
		if !dots {
			break
		}
	}
	return forms{unique(f.normal...), unique(f.more...), unique(f.joined...)}, true
}

func unique(list ...string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// parts holds the parts of a URI; their concatenation is the URI.
type parts struct {
	scheme    string // in lower case, including the colon
	authority string // including the leading slashes; empty if there is none
	path      string
	tail      string // query and fragment
}

// parseURI splits a URI into parts without decoding it. ok is false if the URI has no scheme, if
// its authority contains characters that are invalid in a host, or if it has a web scheme but no
// host.
func parseURI(uri string) (p parts, ok bool) {
	p.scheme = strings.ToLower(uri[:schemeEnd(uri)])
	rest, has := strings.CutPrefix(uri[len(p.scheme):], "//")
	if has {
		end := strings.IndexAny(rest+"/", "/?#")
		if strings.ContainsFunc(rest[:end], notOfHosts) {
			return parts{}, false
		}
		p.authority, rest = "//"+rest[:end], rest[end:]
	} else if p.scheme == "file:" {
		p.authority, rest = "//", "/"+strings.TrimPrefix(rest, "/")
	}
	end := strings.IndexAny(rest+"?", "?#")
	p.path, p.tail = rest[:end], rest[end:]
	return p, p.scheme != "" && (len(p.authority) > len("//") || !ofTheWeb(p.scheme))
}

// decoded percent-decodes path and tail once. It returns false for invalid UTF-8, for an invalid
// percent-encoding (unless lenient is true), and for a path that contains control characters,
// backslashes or encoded slashes.
func (p parts) decoded(lenient bool) (parts, bool) {
	path, ok := decode(p.path, "?#", lenient)
	if !ok || strings.Count(path, "/") != strings.Count(p.path, "/") ||
		strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }) {
		return parts{}, false
	}
	p.path = path
	p.tail, ok = decode(p.tail, "#&=+?", lenient)
	return p, ok && utf8.ValidString(p.authority) && utf8.ValidString(p.path) && utf8.ValidString(p.tail)
}

// String returns the normal form of decoded parts (RFC 3986, 6.2.2 and 6.2.3): scheme and host in
// lower case, no host for local files, no default port, percent-encoded characters decoded and dot
// segments in the path removed. Like servers, it decodes more than the RFC permits: everything
// except delimiters. "file:/a" and "file:a" become "file:///a", as in browsers and RFC 8089.
func (p parts) String() string {
	return p.scheme + normalizeAuthority(p.scheme, p.authority) + removeDots(p.path) + p.tail
}

// lenient returns the value of forms.more for decoded parts.
func (p parts) lenient() (all []string) {
	tail, _, _ := strings.Cut(p.tail, "#")
	stem := tail
	authorities := unique(p.authority, withoutUser(p.authority))
	if p.scheme == "file:" {
		stem, authorities = "", append(authorities, "//")
	}
	for _, authority := range authorities {
		for _, path := range unique(removeDots(p.path), removeDots(collapse(p.path)), collapse(removeDots(p.path))) {
			all = append(all, strings.TrimRight(p.scheme+normalizeAuthority(p.scheme, authority)+path+stem, " "))
		}
	}
	// A server that joins authority and path may also remove query, user and port.
	for _, tail := range unique(p.tail, tail, "") {
		for _, authority := range unique(append(authorities, withoutPort(withoutUser(p.authority)))...) {
			for _, form := range p.joined(authority, tail) {
				all = append(all, written(strings.TrimRight(form, " "))...)
			}
		}
	}
	return all
}

// written returns all spellings of a joined URI. The first segment may be a host, whose case does
// not matter.
func written(joined string) (all []string) {
	scheme, rest := joined[:schemeEnd(joined)], joined[schemeEnd(joined):]
	for _, rest := range unique(rest, lowerFirst(rest)) {
		all = append(all, scheme+rest, scheme+"/"+rest, scheme+"//"+rest, scheme+"///"+rest)
	}
	return all
}

// joined returns the value of forms.joined for decoded parts, with the given authority and tail.
func (p parts) joined(authority, tail string) (all []string) {
	if ofTheWeb(p.scheme) {
		return nil
	}
	for _, path := range unique(p.path, removeDots(p.path)) {
		all = append(all, p.scheme+join(authority+"/"+path)+tail)
	}
	return all
}

// join removes leading and trailing slashes, empty segments and dot segments. It keeps a ".." after
// "**", because the segment that ".." would remove is unknown.
func join(path string) string {
	var out []string
	for segment := range strings.SplitSeq(path, "/") {
		switch n := len(out); {
		case segment == "" || segment == ".":
		case segment != "..":
			out = append(out, segment)
		case n > 0 && strings.Contains(out[n-1], "**"):
			out = append(out, segment)
		case n > 0:
			out = out[:n-1]
		}
	}
	return strings.Join(out, "/")
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

func collapse(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
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

// normalizeAuthority converts the host in an authority, which starts with slashes, to lower case.
// It removes a default port, and "localhost" in file: URIs.
func normalizeAuthority(scheme, authority string) string {
	user := max(strings.LastIndexByte(authority, '@')+1, min(len(authority), len("//")))
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

// decode percent-decodes a text except for delimiters. ok is false if an encoding is invalid; if
// lenient is true, an invalid encoding is kept unchanged instead.
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
