// Package textdiff compares two texts line by line.
//
// Library: aymanbagabas/go-udiff, the diff of the Go tools as a package (BSD).
package textdiff

import (
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
