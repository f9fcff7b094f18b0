package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxExported = 64 // characters of a name; what the strictest clients take
	hashDigits  = 8
)

// naming gives tools and prompts the names under which they are exported. It is a
// function of the set of servers.
type naming struct {
	asIs bool // one server: names stay
	// plain are the servers whose ID_NAME cannot be another server's: their id is a
	// name itself, and no other id followed by "_" begins it.
	plain map[string]bool
}

func newNaming(servers []string) naming {
	n := naming{asIs: len(servers) <= 1, plain: make(map[string]bool, len(servers))}
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

// export is the name under which a server's tool or prompt is exported.
func (n naming) export(server, name string) string {
	if n.asIs {
		return name
	}
	full := server + "_" + name
	if n.plain[server] && isName(name) && len(full) <= maxExported && !looksHashed(full) {
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

// looksHashed reports whether a name ends as those with a hash do.
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
