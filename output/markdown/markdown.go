// Package markdown renders Markdown as text for terminals. It wraps paragraphs and tables to a
// width and leaves code unchanged. It supports the elements that mcptrack's manual uses: headings,
// paragraphs, lists, code, tables and links.
//
// Library: yuin/goldmark parses Markdown (MIT; the vault uses it too). Glamour would render it too,
// but its highlighter adds 5 MiB to the program.
package markdown

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

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
	md := goldmark.New(goldmark.WithExtensions(extension.Table))
	r := renderer{source: source, styles: opts.Styles}
	r.blocks(md.Parser().Parse(text.NewReader(source)), "", opts.Width)
	return strings.TrimLeft(r.out.String(), "\n")
}

// renderer accumulates the rendered blocks of a document.
type renderer struct {
	source []byte
	styles bool
	out    strings.Builder
}

// blocks renders the child blocks of a node, with every line indented and within width.
func (r *renderer) blocks(parent ast.Node, indent string, width int) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		tight := n.Kind() == ast.KindTextBlock
		if !tight {
			r.out.WriteByte('\n')
		}
		switch n := n.(type) {
		case *ast.Heading:
			fragments := r.inline(n, termtext.Bold)
			for i := range fragments {
				fragments[i].text = strings.ToUpper(fragments[i].text)
			}
			r.paragraph(fragments, indent, width)
		case *ast.FencedCodeBlock:
			r.code(n, indent+"  ")
		case *ast.CodeBlock:
			r.code(n, indent+"  ")
		case *ast.List:
			r.list(n, indent, width)
		case *east.Table:
			r.table(n, indent, width)
		default:
			r.paragraph(r.inline(n, ""), indent, width)
		}
	}
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

func (r *renderer) code(n ast.Node, indent string) {
	var b bytes.Buffer
	for i := range n.Lines().Len() {
		at := n.Lines().At(i)
		b.Write(at.Value(r.source))
	}
	for text := range strings.SplitSeq(strings.TrimRight(b.String(), "\n"), "\n") {
		r.line(text, indent)
	}
}

func (r *renderer) list(list *ast.List, indent string, width int) {
	number := list.Start
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		marker := "- "
		if list.IsOrdered() {
			marker = strconv.Itoa(number) + ". "
			number++
		}
		inner := renderer{source: r.source, styles: r.styles}
		inner.blocks(item, "", width-len(marker))
		body := strings.Trim(inner.out.String(), "\n")
		if item != list.FirstChild() && !list.IsTight {
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

// inline returns the text of a node's children as fragments. Text without markup has the given
// style.
func (r *renderer) inline(parent ast.Node, style termtext.Colour) []fragment {
	var out []fragment
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			out = append(out, fragment{string(n.Segment.Value(r.source)), style})
			if n.SoftLineBreak() || n.HardLineBreak() {
				out = append(out, fragment{" ", style})
			}
		case *ast.String:
			out = append(out, fragment{string(n.Value), style})
		case *ast.CodeSpan:
			out = append(out, r.inline(n, termtext.Cyan)...)
		case *ast.Emphasis:
			out = append(out, r.inline(n, termtext.Bold)...)
		case *ast.AutoLink:
			out = append(out, fragment{string(n.Label(r.source)), style})
		case *ast.Link:
			label := r.inline(n, style)
			out = append(out, label...)
			if url := string(n.Destination); plain(label) != url {
				out = append(out, fragment{" (" + url + ")", style})
			}
		default:
			out = append(out, r.inline(n, style)...)
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
func (r *renderer) table(t *east.Table, indent string, width int) {
	var rows [][][]fragment
	for row := t.FirstChild(); row != nil; row = row.NextSibling() {
		style := termtext.Colour("")
		if row.Kind() == east.KindTableHeader {
			style = termtext.Bold
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

// cell returns the text of a table cell. A table must escape | even in code, where the parser keeps
// the backslash; cell removes it.
func (r *renderer) cell(cell ast.Node, style termtext.Colour) []fragment {
	fragments := r.inline(cell, style)
	for i := range fragments {
		fragments[i].text = strings.ReplaceAll(fragments[i].text, `\|`, "|")
	}
	return fragments
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
