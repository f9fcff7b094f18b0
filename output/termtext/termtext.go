// Package termtext measures, truncates, wraps and colours text for a terminal. Widths are in
// terminal columns. Text must be printable (see core/printable), and not yet coloured when it is
// measured.
//
// Library: github.com/clipperhouse/displaywidth measures grapheme clusters, such as joined emoji,
// by Unicode's rules.
package termtext

import (
	"strings"

	"github.com/clipperhouse/displaywidth"

	"github.com/mcptrack/mcptrack/core/event"
)

// Colour is the parameter of an ANSI escape sequence, such as "31" or "1;31". The empty Colour
// leaves text unchanged.
type Colour string

const (
	Bold   Colour = "1"
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
	Grey   Colour = "90"
)

// Toned returns the colour of a tone.
func Toned(t event.Tone) Colour {
	switch t {
	case event.ToneGood:
		return Green
	case event.ToneBad:
		return Red
	case event.ToneChanged:
		return Yellow
	case event.ToneAccent:
		return Cyan
	}
	return Grey
}

// Paint returns s coloured with c.
func (c Colour) Paint(s string) string {
	if c == "" || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// Width returns the number of columns that s occupies.
func Width(s string) int { return displaywidth.String(s) }

// Pad appends spaces until s is width columns wide.
func Pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-Width(s)))
}

// Middle replaces the middle of s with an ellipsis if s is wider than limit columns. It suits URIs,
// which identify the server at the beginning and the resource at the end.
func Middle(s string, limit int) string {
	if Width(s) <= limit {
		return s
	}
	if limit < 1 {
		return ""
	}
	clusters := split(s)
	left, right, used := 0, len(clusters), 1 // the ellipsis occupies one column
	for left < right {
		// Extend both ends alternately. The right end is first, so it may be longer.
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

// End replaces the end of s with an ellipsis if s is wider than limit columns.
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

// Wrap splits s into lines of at most limit columns, preferably at spaces.
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
	// Measure whole lines, because a character such as U+FE0F may widen the preceding character.
	wide := func(more string) bool { return line != "" && Width(line+more) > limit }
	for word := range strings.FieldsSeq(s) {
		if wide(" " + word) {
			flush()
		}
		if line != "" {
			line += " "
		}
		for _, c := range split(word) {
			if wide(c.text) { // break a word that is wider than a line
				flush()
			}
			line += c.text
		}
	}
	flush()
	return lines
}

// Fold splits one line of text into lines of at most limit columns, preferably after a space. It
// keeps all spaces, unlike [Wrap]. All lines but the first begin with indent spaces.
func Fold(s string, limit, indent int) []string {
	limit = max(limit, 2)
	if indent = max(indent, 0); indent > limit/2 {
		indent = 0
	}
	var lines []string
	margin := ""
	begin, width := 0, 0   // of the current line in s, and its width
	after, beyond := -1, 0 // where the text after the last space begins, and the width up to there
	at := 0
	for g := displaywidth.StringGraphemes(s); g.Next(); {
		c, w := g.Value(), g.Width()
		for width+w > limit-len(margin) && at > begin { // again, if the indent leaves too little for what follows the space
			end := at
			if after > begin && beyond > limit/2 {
				end = after
				width -= beyond
			} else {
				width = 0
			}
			lines = append(lines, margin+s[begin:end])
			begin, after, margin = end, -1, strings.Repeat(" ", indent)
		}
		at += len(c)
		width += w
		if c == " " {
			after, beyond = at, width
		}
	}
	return append(lines, margin+s[begin:])
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
