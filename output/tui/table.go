package tui

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/mcptrack/mcptrack/output/termtext"
)

// column is a column of a table. It is as wide as its widest text. If there is too little room, columns become
// narrower, those of sentences first, and then those with the largest spare are left out.
type column struct {
	head  string
	kind  kind
	spare int // 0: never left out
}

// kind says how a column is aligned and shortened.
type kind int

const (
	left     kind = iota
	right         // aligned to the right
	name          // loses its middle if there is too little room
	sentence      // loses its end, and has the rest of the line
)

// cell is a text in a table, printable and without colours.
type cell struct {
	text  string
	style termtext.Colour
}

// table is a list whose rows have columns.
type table struct {
	list
	widths []int // of the widest texts that were shown
}

const (
	leastName = 16 // the width to which a column of names is shortened before columns are left out
	maxSpare  = 4  // the largest spare of a column
)

// view returns the heading, with position at its end, and at most height-1 of n rows, or none if there are no
// rows. row returns the cells of a row; if they are too few, the last one has the rest of the line. selected is
// -1 or the selected row.
func (t *table) view(m *model, columns []column, position string, n, height, selected int, none string, row func(int) []cell) (out []string) {
	if n == 0 {
		return append([]string{""}, indented(none, m.width)...)
	}
	if len(t.widths) != len(columns) {
		t.widths = make([]int, len(columns))
	}
	from, to := t.window(n, height-1)
	rows := make([][]cell, 1, max(0, to-from)+1) // the first is the heading
	for _, c := range columns {
		rows[0] = append(rows[0], cell{c.head, m.styles.dim})
	}
	for i := from; i < to; i++ {
		rows = append(rows, row(i))
	}
	for _, cells := range rows {
		for i, c := range cells {
			if i < len(cells)-1 || len(cells) == len(columns) {
				t.widths[i] = max(t.widths[i], min(ansi.StringWidth(c.text), m.width))
			}
		}
	}
	gap := 1
	if m.width >= 100 {
		gap = 2
	}
	widths := fit(columns, t.widths, gap, m.width-ansi.StringWidth(position)-2)
	for i, cells := range rows {
		if text := tableLine(columns, widths, gap, m.width-1, cells); i == 0 {
			out = append(out, m.spread(" "+text, m.styles.dim.Paint(position)))
		} else {
			out = append(out, m.marked(text, from+i-1 == selected))
		}
	}
	return out
}

// indented returns a text as lines that begin with two spaces.
func indented(text string, width int) []string {
	lines := termtext.Wrap(text, width-2)
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return lines
}

// fit returns the widths of columns, with gaps between them, in a room; -1 for those that are left out.
func fit(columns []column, natural []int, gap, room int) []int {
	widths := slices.Clone(natural)
	shrink := func(k kind, least int) (done bool) { // the widest columns first
		for {
			over, widest := -gap-room, -1
			for i, w := range widths {
				if w >= 0 {
					over += w + gap
				}
				if c := columns[i]; c.kind == k && w > max(least, ansi.StringWidth(c.head)) && (widest < 0 || w > widths[widest]) {
					widest = i
				}
			}
			if over <= 0 || widest < 0 {
				return over <= 0
			}
			widths[widest]--
		}
	}
	for spare := maxSpare; !shrink(sentence, room/2) && !shrink(name, leastName) && !shrink(sentence, 0) && spare > 0; spare-- {
		for i, c := range columns {
			if widths[i] = natural[i]; c.spare >= spare {
				widths[i] = -1
			}
		}
	}
	shrink(name, 0)
	return widths
}

// tableLine returns a row of a table.
func tableLine(columns []column, widths []int, gap, room int, cells []cell) string {
	var b strings.Builder
	used := 0
	for i, c := range cells {
		width, kind := widths[i], columns[i].kind
		if i == len(cells)-1 && (len(cells) < len(columns) || kind == sentence) {
			width, kind = max(0, room-used), sentence
		}
		if width < 0 {
			continue
		}
		text := c.text
		switch kind {
		case right:
			text = strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + cut(text, width)
		case name:
			text = middle(text, width)
		default:
			text = pad(text, width)
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", gap))
		}
		b.WriteString(c.style.Paint(text))
		used += width + gap
	}
	return b.String()
}
