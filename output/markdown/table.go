package markdown

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
)

const (
	columnGap = 2 // spaces between two columns
	// maxLead bounds the width of each column but the last, whose text is usually the
	// longest.
	maxLead = 34
)

// table writes rows in aligned columns without lines. Each cell is wrapped; the last
// column gets the width that is left. A header whose cells are all empty is left out.
func (r *renderer) table(t *east.Table, indent string, width int) {
	var rows [][][]fragment
	for row := t.FirstChild(); row != nil; row = row.NextSibling() {
		style := ""
		if row.Kind() == east.KindTableHeader {
			style = bold
		}
		var cells [][]fragment
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, r.cell(cell, style))
		}
		if !slices.ContainsFunc(cells, func(c []fragment) bool { return plain(c) != "" }) {
			continue
		}
		rows = append(rows, cells)
	}
	widths := columnWidths(rows, width-2)
	for _, cells := range rows {
		wrapped := make([][]string, len(cells))
		height := 0
		for i, cell := range cells {
			wrapped[i] = r.wrap(cell, widths[i])
			height = max(height, len(wrapped[i]))
		}
		for l := range height {
			var line strings.Builder
			line.WriteString("  ")
			for i := range cells {
				text := ""
				if l < len(wrapped[i]) {
					text = wrapped[i][l]
				}
				line.WriteString(text)
				if i < len(cells)-1 {
					line.WriteString(strings.Repeat(" ", max(1, widths[i]-visible(text)+columnGap)))
				}
			}
			r.lines([]string{line.String()}, indent)
		}
	}
}

// cell returns the text of a cell. In a table | must be escaped, even in code, where the
// parser leaves the backslash: it is removed here.
func (r *renderer) cell(cell ast.Node, style string) []fragment {
	fragments := r.inline(cell, style)
	for i := range fragments {
		fragments[i].text = strings.ReplaceAll(fragments[i].text, `\|`, "|")
	}
	return fragments
}

// columnWidths distributes the width among the columns: each column but the last is as wide as
// its widest cell, but not wider than maxLead, and the last gets the rest.
func columnWidths(rows [][][]fragment, width int) []int {
	var widths []int
	for _, cells := range rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(plain(cell)))
		}
	}
	for i := range widths {
		if i < len(widths)-1 {
			widths[i] = min(widths[i], maxLead)
			width -= widths[i] + columnGap
		} else {
			widths[i] = max(width, 10)
		}
	}
	return widths
}

// visible returns the width of a text in columns, without its style sequences.
func visible(s string) int {
	for _, style := range []string{bold, cyan, reset} {
		s = strings.ReplaceAll(s, style, "")
	}
	return utf8.RuneCountInString(s)
}
