package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
)

const (
	maxExported = 64 // characters of a name; what the strictest clients take
	hashDigits  = 8
)

// naming determines the exported names of tools and prompts. It is a function of the
// set of servers and of the gateway's own tools.
type naming struct {
	asIs bool // there is at most one server: names stay as they are
	// plain holds the servers whose ID_NAME cannot collide with another server's: the id
	// is a valid name, and no prefix of it before a "_" is the id of a server.
	plain map[string]bool
	taken map[string]bool // names of the gateway's own tools
}

func newNaming(servers []string, taken map[string]bool) naming {
	n := naming{asIs: len(servers) <= 1, plain: make(map[string]bool, len(servers)), taken: taken}
	all := make(map[string]bool, len(servers))
	for _, id := range servers {
		all[id] = true
	}
	for _, id := range servers {
		n.plain[id] = isName(id)
		for i, c := range []byte(id) {
			if c == '_' && all[id[:i]] {
				n.plain[id] = false
			}
		}
	}
	return n
}

// export returns the exported name of a server's tool or prompt.
func (n naming) export(server, name string) string {
	if n.asIs && !n.taken[name] {
		return name
	}
	full := server + "_" + name
	if !n.asIs && n.plain[server] && isName(name) && len(full) <= maxExported && !looksHashed(full) && !n.taken[full] {
		return full
	}
	sum := sha256.Sum256([]byte(server + "\x00" + name))
	full = strings.Map(func(r rune) rune {
		if r < 0x80 && nameByte(byte(r)) {
			return r
		}
		return '_'
	}, full)
	return full[:min(len(full), maxExported-hashDigits-1)] + "_" + hex.EncodeToString(sum[:hashDigits/2])
}

// looksHashed reports whether a name ends like one with a hash.
func looksHashed(s string) bool {
	at := len(s) - hashDigits - 1
	if at < 0 || s[at] != '_' {
		return false
	}
	return strings.Trim(s[at+1:], "0123456789abcdef") == ""
}

func isName(s string) bool {
	for _, c := range []byte(s) {
		if !nameByte(c) {
			return false
		}
	}
	return s != ""
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

// Prefixes of URIs that name their server. Those of MCP Apps keep their scheme, as hosts
// load nothing else: https://modelcontextprotocol.io/extensions/apps.
const (
	ownForm   = "mcptrack://server/"
	ownUIForm = uiScheme + "mcptrack/server/"
	uiScheme  = "ui://"
)

// isQualified reports whether a URI or URI template has the prefix of those that name their
// server (see qualify).
func isQualified(uri string) bool {
	return strings.HasPrefix(uri, ownForm) || strings.HasPrefix(uri, ownUIForm)
}

// qualify returns the URI, or URI template, that names its server. The server is a path
// segment because hosts are case-insensitive and restricted in their characters.
func qualify(server, uri string) string {
	var b strings.Builder
	if rest, ok := strings.CutPrefix(uri, uiScheme); ok {
		b.WriteString(ownUIForm)
		uri = rest
	} else {
		b.WriteString(ownForm)
	}
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
	scheme := ""
	rest, ok := strings.CutPrefix(s, ownForm)
	if !ok {
		scheme = uiScheme
		if rest, ok = strings.CutPrefix(s, ownUIForm); !ok {
			return "", "", false
		}
	}
	segment, uri, ok := strings.Cut(rest, "/")
	if !ok || uri == "" {
		return "", "", false
	}
	server, err := url.PathUnescape(segment)
	if err != nil || server == "" {
		return "", "", false
	}
	return server, scheme + uri, true
}
