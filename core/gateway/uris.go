package gateway

import (
	"fmt"
	"net/url"
	"strings"
)

// ownForm is how URIs begin that name their server.
const ownForm = "mcptrack://server/"

// qualify makes the URI, or URI template, that names its server. The server is a
// segment of the path, because hosts are neither case-sensitive nor free in their
// characters.
func qualify(server, uri string) string {
	var b strings.Builder
	b.WriteString(ownForm)
	for _, c := range []byte(server) {
		if nameByte(c) && server != "." && server != ".." {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	b.WriteByte('/')
	b.WriteString(uri)
	return b.String()
}

// unqualify is the inverse of qualify.
func unqualify(s string) (server, uri string, ok bool) {
	rest, ok := strings.CutPrefix(s, ownForm)
	if !ok {
		return "", "", false
	}
	segment, uri, ok := strings.Cut(rest, "/")
	if !ok || uri == "" {
		return "", "", false
	}
	server, err := url.PathUnescape(segment)
	if err != nil || server == "" {
		return "", "", false
	}
	return server, uri, true
}
