// Package columns measures, cuts and wraps text by the columns that it takes on a
// terminal. Text is expected to be printable (see core/printable) and without colours.
//
// Library: github.com/clipperhouse/displaywidth measures grapheme clusters, such as emoji
// that are joined, by Unicode's rules.
package columns

import (
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// Width is the number of columns that a text takes.
func Width(s string) int { return displaywidth.String(s) }

// Pad appends spaces until s is width columns wide.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-Width(s)))
}

// Middle replaces the middle of a text that is wider than limit columns by an ellipsis. It is
// meant for URIs: their beginning tells the server and their end the resource.
func Middle(s string, limit int) string {
	if Width(s) <= limit {
		return s
	}
	if limit < 1 {
		return ""
	}
	clusters := split(s)
	left, right, used := 0, len(clusters), 1 // the ellipsis takes one column
	for left < right {
		// Taking turns, beginning with the end: it gets the larger part.
		if at := &clusters[right-1]; used+at.width <= limit {
			used += at.width
			right--
		} else {
			break
		}
		if left >= right {
			break
		}
		if at := &clusters[left]; used+at.width <= limit {
			used += at.width
			left++
		} else {
			break
		}
	}
	return join(clusters[:left]) + "…" + join(clusters[right:])
}

// End replaces the end of a text that is wider than limit columns by an ellipsis.
func End(s string, limit int) string {
	if Width(s) <= limit {
		return s
	}
	if limit < 1 {
		return ""
	}
	var b strings.Builder
	used := 1
	for _, c := range split(s) {
		if used += c.width; used > limit {
			break
		}
		b.WriteString(c.text)
	}
	return b.String() + "…"
}

// Wrap divides a text into lines of at most limit columns, at spaces where there are any.
func Wrap(s string, limit int) []string {
	limit = max(limit, 1)
	var lines []string
	line := ""
	flush := func() {
		if line != "" {
			lines = append(lines, line)
		}
		line = ""
	}
	// Lines are measured as a whole: a character such as U+FE0F may widen the one before it.
	wide := func(more string) bool { return line != "" && Width(line+more) > limit }
	for word := range strings.FieldsSeq(s) {
		if wide(" " + word) {
			flush()
		}
		if line != "" {
			line += " "
		}
		for _, c := range split(word) {
			if wide(c.text) { // a word that is wider than a line
				flush()
			}
			line += c.text
		}
	}
	flush()
	return lines
}

type cluster struct {
	text  string
	width int
}

func split(s string) []cluster {
	var out []cluster
	for g := displaywidth.StringGraphemes(s); g.Next(); {
		out = append(out, cluster{g.Value(), g.Width()})
	}
	return out
}

func join(clusters []cluster) string {
	var b strings.Builder
	for _, c := range clusters {
		b.WriteString(c.text)
	}
	return b.String()
}
