package process

import "github.com/mcptrack/mcptrack/core/printable"

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
	return printable.Line(s, maxRunes)
}
