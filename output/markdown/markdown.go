// Package markdown renders Markdown as text for terminals. It wraps paragraphs and tables to a
// width and leaves code unchanged. It supports the elements that mcptrack's manual uses: headings,
// paragraphs, lists, code, tables and links.
//
// Library: yuin/goldmark parses Markdown (MIT; the vault uses it too). Glamour would render it too,
// but its highlighter adds 5 MiB to the program.
package markdown

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/output/termtext"
)

// Options configure the rendering.
type Options struct {
	Width  int  // line width in columns; 80 if below 20
	Styles bool // whether to use ANSI bold and colours
}

// Render returns a document as terminal text. Every line ends in a newline. Only code and words
// without spaces can be wider than Options.Width.
func Render(source []byte, opts Options) string {
	if opts.Width < 20 {
		opts.Width = 80
	}
	r := renderer{styles: opts.Styles}
	r.blocks(parse(source), "", opts.Width)
	return strings.TrimLeft(r.out.String(), "\n")
}

// renderer accumulates the rendered blocks of a document.
type renderer struct {
	styles bool
	out    strings.Builder
}

// blocks renders elements, with every line indented and within width.
func (r *renderer) blocks(nodes []Node, indent string, width int) {
	for len(nodes) > 0 {
		words := 0
		for words < len(nodes) && !isBlock(nodes[words]) {
			words++
		}
		if words > 0 { // in an item of a list without paragraphs
			r.paragraph(r.inline(nodes[:words], ""), indent, width)
			nodes = nodes[words:]
			continue
		}
		n := nodes[0]
		nodes = nodes[1:]
		r.out.WriteByte('\n')
		switch n.Tag {
		case "h1", "h2", "h3", "h4", "h5", "h6":
			fragments := r.inline(n.Children, termtext.Bold)
			for i := range fragments {
				fragments[i].text = strings.ToUpper(fragments[i].text)
			}
			r.paragraph(fragments, indent, width)
		case "pre":
			for text := range strings.SplitSeq(strings.TrimRight(n.Children[0].Text, "\n"), "\n") {
				r.line(text, indent+"  ")
			}
		case "ul", "ol":
			r.list(n, indent, width)
		case "table":
			r.table(n, indent, width)
		default:
			r.paragraph(r.inline(n.Children, ""), indent, width)
		}
	}
}

// isBlock reports whether an element begins on a line of its own.
func isBlock(n Node) bool {
	return !slices.Contains([]string{"", "a", "br", "code", "em", "strong"}, n.Tag)
}

func (r *renderer) line(text, indent string) {
	r.out.WriteString(strings.TrimRight(indent+text, " ") + "\n")
}

// paragraph writes fragments as lines wrapped to width.
func (r *renderer) paragraph(fragments []fragment, indent string, width int) {
	for _, l := range r.wrap(fragments, width) {
		r.line(l.text, indent)
	}
}

// list renders a list. The text of each item is aligned after its marker.
func (r *renderer) list(list Node, indent string, width int) {
	for i, item := range list.Children {
		marker := "- "
		if list.Tag == "ol" {
			marker = strconv.Itoa(i+1) + ". "
		}
		inner := renderer{styles: r.styles}
		inner.blocks(item.Children, "", width-len(marker))
		body := strings.Trim(inner.out.String(), "\n")
		if i > 0 && len(item.Children) > 0 && item.Children[0].Tag == "p" {
			r.out.WriteByte('\n')
		}
		lead := indent + marker
		for line := range strings.SplitSeq(body, "\n") {
			r.out.WriteString(strings.TrimRight(lead+line, " ") + "\n")
			lead = indent + strings.Repeat(" ", len(marker))
		}
	}
}

// fragment is text in one style.
type fragment struct {
	text  string
	style termtext.Colour
}

// inline returns the fragments of text and of elements within a line.
func (r *renderer) inline(nodes []Node, style termtext.Colour) []fragment {
	var out []fragment
	for _, n := range nodes {
		switch n.Tag {
		case "":
			out = append(out, fragment{n.Text, style})
		case "br":
			out = append(out, fragment{" ", style})
		case "code":
			out = append(out, r.inline(n.Children, termtext.Cyan)...)
		case "em", "strong":
			out = append(out, r.inline(n.Children, termtext.Bold)...)
		default:
			label := r.inline(n.Children, style)
			out = append(out, label...)
			if n.Link != "" && plain(label) != n.Link {
				out = append(out, fragment{" (" + n.Link + ")", style})
			}
		}
	}
	return out
}

func plain(fragments []fragment) string {
	var b strings.Builder
	for _, f := range fragments {
		b.WriteString(f.text)
	}
	return b.String()
}

// line is styled text and its width in columns.
type line struct {
	text  string
	width int
}

func (l *line) add(more line) { l.text, l.width = l.text+more.text, l.width+more.width }

// wrap breaks fragments at spaces into lines of at most width columns.
func (r *renderer) wrap(fragments []fragment, width int) []line {
	var lines []line
	var current, word line
	flush := func() { // adds the pending word to the current line, or to a new one if it does not fit
		if word.width == 0 {
			return
		}
		if current.width > 0 && current.width+1+word.width > width {
			lines = append(lines, current)
			current = line{}
		}
		if current.width > 0 {
			current.add(line{" ", 1})
		}
		current.add(word)
		word = line{}
	}
	for _, f := range fragments {
		for i, part := range strings.Split(strings.ReplaceAll(f.text, "\n", " "), " ") {
			if i > 0 {
				flush()
			}
			columns := termtext.Width(part)
			if r.styles {
				part = f.style.Paint(part)
			}
			word.add(line{part, columns})
		}
	}
	flush()
	if current.width > 0 {
		lines = append(lines, current)
	}
	return lines
}

const (
	columnGap = 2 // spaces between two columns
	// maxLead limits the width of every column except the last, which usually has the longest text.
	maxLead = 34
)

// table writes rows in aligned columns without borders. It wraps each cell, assigns the remaining
// width to the last column, and omits rows whose cells are all empty.
func (r *renderer) table(t Node, indent string, width int) {
	var rows [][][]fragment
	for _, row := range t.Children {
		var cells [][]fragment
		for _, cell := range row.Children {
			style := termtext.Colour("")
			if cell.Tag == "th" {
				style = termtext.Bold
			}
			cells = append(cells, r.inline(cell.Children, style))
		}
		if !slices.ContainsFunc(cells, func(c []fragment) bool { return plain(c) != "" }) {
			continue
		}
		rows = append(rows, cells)
	}
	widths := columnWidths(rows, width-2)
	for _, cells := range rows {
		wrapped := make([][]line, len(cells))
		height := 0
		for i, cell := range cells {
			wrapped[i] = r.wrap(cell, widths[i])
			height = max(height, len(wrapped[i]))
		}
		for l := range height {
			row := line{text: "  "}
			for i := range cells {
				var text line
				if l < len(wrapped[i]) {
					text = wrapped[i][l]
				}
				row.text += text.text
				if i < len(cells)-1 {
					row.text += strings.Repeat(" ", max(1, widths[i]-text.width+columnGap))
				}
			}
			r.line(row.text, indent)
		}
	}
}

// columnWidths distributes the width: every column except the last is as wide as its widest cell,
// up to maxLead columns; the last column has the remaining width.
func columnWidths(rows [][][]fragment, width int) []int {
	var widths []int
	for _, cells := range rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], termtext.Width(plain(cell)))
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
