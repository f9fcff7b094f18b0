// Package diff shows unified diffs on terminals and counts their lines.
package diff

import (
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// Colour adds ANSI colours to a unified diff and escapes characters that are not printable.
func Colour(unified string) string {
	var b strings.Builder
	for line := range strings.Lines(unified) {
		text := printable.Lines(strings.TrimSuffix(line, "\n"))
		colour := map[byte]termtext.Colour{'+': termtext.Green, '-': termtext.Red, '@': termtext.Cyan}[line[0]]
		b.WriteString(colour.Paint(text) + "\n")
	}
	return b.String()
}

// Lines returns how many lines differ between two texts; a replaced line counts once. It returns 0
// if the texts are equal or either is larger than [textdiff.MaxText].
func Lines(from, to string) int {
	total, minus, plus := 0, 0, 0
	end := func() {
		total += max(minus, plus)
		minus, plus = 0, 0
	}
	header := true
	for line := range strings.Lines(textdiff.Unified("", from, to)) {
		switch {
		case line[0] == '@':
			header = false
			end()
		case header, line[0] == '\\': // "\ No newline at end of file"
		case line[0] == '-':
			minus++
		case line[0] == '+':
			plus++
		default:
			end()
		}
	}
	end()
	return total
}
