package realtime

import (
	"net/http"
	"net/textproto"
	"strings"
)

// headerName reports whether a string is a name of a header: a token of RFC 9110,
// §5.6.2.
func headerName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// headerValue reports whether a string is a value of a header: nothing in it ends
// the line.
func headerValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// hopByHop reports whether a header is about one connection, or belongs to the
// handshake that each connection makes anew.
func hopByHop(name string) bool {
	switch name = textproto.CanonicalMIMEHeaderKey(name); name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Host":
		return true
	}
	return strings.HasPrefix(name, "Sec-Websocket-")
}

// endToEnd copies the headers that are not about one connection.
func endToEnd(to, from http.Header) {
	named := map[string]bool{} // what Connection names is about it, too
	for _, line := range from.Values("Connection") {
		for name := range strings.SplitSeq(line, ",") {
			named[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range from {
		if !hopByHop(name) && !named[name] {
			to[name] = append(to[name], values...)
		}
	}
}
