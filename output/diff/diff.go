// Package diff formats the change of a text as a unified diff.
//
// Library: aymanbagabas/go-udiff, the diff of the Go tools as a package (BSD).
package diff

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// MaxText is the largest size, in bytes, of either text for which a diff is made: a larger diff
// would be useless to a reader and expensive.
const MaxText = 1 << 20

// Unified returns the unified diff from one text to another, with three lines of context, or
// "" when they are equal or larger than MaxText. label is the name of both texts in the diff.
func Unified(label, from, to string) string {
	if from == to || len(from) > MaxText || len(to) > MaxText {
		return ""
	}
	label = printable.Line(label, 200)
	return udiff.Unified(label, label, from, to)
}

// Colour returns the diff with ANSI colours for a terminal and only printable characters.
func Colour(unified string) string {
	var b strings.Builder
	for line := range strings.Lines(unified) {
		text := printable.Lines(strings.TrimSuffix(line, "\n"))
		colour := map[byte]termtext.Colour{'+': termtext.Green, '-': termtext.Red, '@': termtext.Cyan}[line[0]]
		b.WriteString(colour.Paint(text) + "\n")
	}
	return b.String()
}

// Lines returns how many lines differ between two texts; a line that was replaced counts once.
// It returns 0 when the texts are equal or larger than MaxText.
func Lines(from, to string) int {
	if from == to || len(from) > MaxText || len(to) > MaxText {
		return 0
	}
	total, minus, plus := 0, 0, 0
	end := func() {
		total += max(minus, plus)
		minus, plus = 0, 0
	}
	header := true
	for line := range strings.Lines(udiff.Unified("", "", from, to)) {
		switch {
		case line[0] == '@':
			header = false
			end()
		case header, line[0] == '\\': // "no newline at end of file"
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
