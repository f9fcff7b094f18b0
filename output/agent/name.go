package agent

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of names in a line, in bytes.
const (
	maxServer = 48
	maxKey    = 160
)

// name formats an untrusted name in at most limit bytes, so that it cannot be mistaken for
// anything but a name: unchanged if it has only characters of URIs, else quoted. An ellipsis
// marks where it was shortened.
func name(s string, limit int) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !inURI(r) }) < 0 {
		if len(s) <= limit {
			return s
		}
		tail := limit / 3 // the end of a URI says more than its middle
		return s[:limit-tail-len("…")] + "…" + s[len(s)-tail:]
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		shown := string(r)
		switch {
		case r == utf8.RuneError && size == 1:
			shown = fmt.Sprintf(`\x%02x`, s[i])
		case !showable(r):
			shown = fmt.Sprintf(`\u%04x`, r)
			if r > 0xFFFF {
				shown = fmt.Sprintf(`\U%08x`, r)
			}
		}
		if b.Len()+len(shown)+len(`…"`) > limit {
			b.WriteString("…")
			break
		}
		b.WriteString(shown)
		i += size
	}
	b.WriteByte('"')
	return b.String()
}

// inURI reports whether a rune is one of the characters of a URI (RFC 3986).
func inURI(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
		r < utf8.RuneSelf && strings.ContainsRune("-._~:/?#[]@!$&'()*+,;=%", r)
}

// showable reports whether a rune may appear unescaped inside the quotes: it must be visible,
// and end neither the quotes nor any delimiter that a host puts around a line.
func showable(r rune) bool {
	switch r {
	case ' ':
		return true
	case '\u115f', '\u1160', '\u3164', '\uffa0': // fillers
		return false
	}
	return inURI(r) || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.In(r, unicode.Mc)
}
