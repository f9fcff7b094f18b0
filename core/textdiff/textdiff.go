// Package textdiff compares two texts line by line.
//
// Library: aymanbagabas/go-udiff, the diff of the Go tools as a package (BSD).
package textdiff

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/mcptrack/mcptrack/core/printable"
)

// MaxText is the maximum size, in bytes, of either text of a diff: a larger diff would be expensive
// and useless to a reader.
const MaxText = 1 << 20

// Unified returns the unified diff from one text to another, with three lines of context, or "" if
// they are equal or either is larger than MaxText. label names both texts in the diff; the lines of
// the texts are not escaped.
func Unified(label, from, to string) string {
	if from == to || len(from) > MaxText || len(to) > MaxText {
		return ""
	}
	label = printable.Line(label, 200)
	return udiff.Unified(label, label, from, to)
}

// Counts returns how many lines differ between two texts: those that only the second contains, and
// those that only the first contains. Both are 0 if either text is larger than MaxText.
func Counts(from, to string) (added, removed int) {
	_, hunks, _ := strings.Cut(Unified("", from, to), "\n+++ ")
	for line := range strings.Lines(hunks) {
		switch line[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return added, removed
}
