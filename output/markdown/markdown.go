// Package markdown renders Markdown as text for terminals: paragraphs and tables are
// wrapped to a width, code stays as it is. It is made for mcptrack's manual and supports
// only what that uses: headings, paragraphs, lists, code, tables and links.
//
// Library: yuin/goldmark parses (MIT; the vault uses it too). Glamour would render as
// well, but adds a highlighter of 5 MiB to the program.
package markdown

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// Options say how a text is rendered.
type Options struct {
	Width  int  // of a line, in columns; values below 20 mean 80
	Styles bool // use bold and colours of ANSI terminals
}

// Render returns the text of a document. Its lines end in newlines and have at most the
// width, except those of code and words that are longer.
func Render(source []byte, opts Options) string {
	if opts.Width < 20 {
		opts.Width = 80
	}
	md := goldmark.New(goldmark.WithExtensions(extension.Table))
	r := renderer{source: source, styles: opts.Styles}
	r.blocks(md.Parser().Parse(text.NewReader(source)), "", opts.Width)
	return strings.TrimLeft(r.out.String(), "\n")
}

// A renderer writes blocks one after the other.
type renderer struct {
	source []byte
	styles bool
	out    strings.Builder
}

// blocks writes the children of a block, each line after the indent and within width.
func (r *renderer) blocks(parent ast.Node, indent string, width int) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		tight := n.Kind() == ast.KindTextBlock
		if !tight {
			r.out.WriteByte('\n')
		}
		switch n := n.(type) {
		case *ast.Heading:
			fragments := r.inline(n, bold)
			for i := range fragments {
				fragments[i].text = strings.ToUpper(fragments[i].text)
			}
			r.lines(r.wrap(fragments, width), indent)
		case *ast.FencedCodeBlock:
			r.code(n, indent+"  ")
		case *ast.CodeBlock:
			r.code(n, indent+"  ")
		case *ast.List:
			r.list(n, indent, width)
		case *east.Table:
			r.table(n, indent, width)
		default:
			r.lines(r.wrap(r.inline(n, ""), width), indent)
		}
	}
}

func (r *renderer) lines(lines []string, indent string) {
	for _, line := range lines {
		r.out.WriteString(strings.TrimRight(indent+line, " ") + "\n")
	}
}

func (r *renderer) code(n ast.Node, indent string) {
	var b bytes.Buffer
	for i := range n.Lines().Len() {
		at := n.Lines().At(i)
		b.Write(at.Value(r.source))
	}
	r.lines(strings.Split(strings.TrimRight(b.String(), "\n"), "\n"), indent)
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
