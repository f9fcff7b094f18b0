package printable

import "strings"

// VisibleASCII reports whether s consists only of visible ASCII characters, as tokens and URLs do.
// A space is not a visible character.
func VisibleASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
