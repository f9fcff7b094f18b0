// Package uri compares URIs that are spelled differently, and encodes what URLs may not contain.
package uri

import (
	"fmt"
	"strings"
)

// Normal returns the normal form of a URI: scheme and host in lower case, without the default port, with
// the path "/" for an empty one of the web, with percent-encoding only where it is needed and in capitals.
// Equivalent URIs have the same normal form (RFC 3986, sections 6.2.2.1, 6.2.2.2 and 6.2.3). Text that is
// no URI is only encoded.
func Normal(s string) string {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/?#") {
		return encode(s)
	}
	scheme = strings.ToLower(scheme)
	if rest, ok = strings.CutPrefix(rest, "//"); !ok {
		return scheme + ":" + encode(rest)
	}
	end := strings.IndexAny(rest+"/", "/?#")
	authority, rest := rest[:end], rest[end:]
	user := authority[:strings.LastIndexByte(authority, '@')+1]
	host := strings.ToLower(encode(authority[len(user):]))
	if port, web := defaultPort(scheme); web {
		host = strings.TrimSuffix(strings.TrimSuffix(host, port), ":")
		if !strings.HasPrefix(rest, "/") {
			rest = "/" + rest
		}
	}
	return scheme + "://" + encode(user) + host + encode(rest)
}

func defaultPort(scheme string) (port string, web bool) {
	switch scheme {
	case "http", "ws":
		return ":80", true
	case "https", "wss":
		return ":443", true
	}
	return "", false
}

// encode percent-encodes what a URI may not contain, decodes what need not be encoded, and writes the other
// percent-encodings in capitals.
func encode(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c, escaped := s[i], false
		if c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			c, escaped = unhex(s[i+1])<<4|unhex(s[i+2]), true
			i += 2
		}
		if plain := unreserved(c); plain || !escaped && (strings.IndexByte("%:/?#[]@!$&'()*+,;=", c) >= 0) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// Query percent-encodes what a query may not contain, such as blanks and characters other than ASCII.
func Query(raw string) string {
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		if c := raw[i]; c > ' ' && c < 0x7f && c != '"' && c != '<' && c != '>' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}
