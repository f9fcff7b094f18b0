package printable

import "strings"

// Shell returns s as one word of a POSIX shell, for commands that a user may copy. Hidden
// characters are escaped as in [Line]; a word that has some means no file.
func Shell(s string) string {
	s = Line(s, 0)
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-+=:,./@%^", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
