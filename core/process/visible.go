package process

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxHead bounds how much of a line is processed for display, in bytes. It is more than is
	// shown, so that Redact sees a secret as a whole that would be cut at maxRunes.
	maxHead = 4 << 10
	// maxRunes bounds how much of a line is shown.
	maxRunes = 512
)

// visible makes a hostile line safe for logs and terminals: one line, without control
// sequences, at most maxRunes long.
func visible(line []byte, redact func(string) string) string {
	s := string(line[:min(len(line), maxHead)])
	if redact != nil {
		s = redact(s)
	}
	var b strings.Builder
	n := 0
	for i := 0; i < len(s); n++ {
		if n == maxRunes {
			b.WriteString("…")
			break
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x`)
			const hex = "0123456789abcdef"
			b.WriteByte(hex[s[i]>>4])
			b.WriteByte(hex[s[i]&15])
		case r == '\t' || unicode.IsPrint(r):
			b.WriteString(s[i : i+size])
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		i += size
	}
	return b.String()
}
