package realtime

import (
	"net/http"
	"net/textproto"
	"strings"
)

// headerName reports whether a string is a valid header name: a token of RFC 9110,
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

// headerValue reports whether a string is a valid header value: it stays in its line.
func headerValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// hopByHop reports whether a header concerns only one connection, or is part of the
// WebSocket handshake, and so must not be forwarded.
func hopByHop(name string) bool {
	switch name = textproto.CanonicalMIMEHeaderKey(name); name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Host":
		return true
	}
	return strings.HasPrefix(name, "Sec-Websocket-")
}

// endToEnd adds the headers in from that are not hop-by-hop to those in to.
func endToEnd(to, from http.Header) {
	named := map[string]bool{} // headers that Connection names are hop-by-hop, too
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
