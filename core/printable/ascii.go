package printable

import "strings"

// VisibleASCII reports whether all characters of s are visible ASCII characters, as in tokens and
// URLs. The space is not visible.
func VisibleASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
