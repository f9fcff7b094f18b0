package markdown

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Node is an element of a document, or text if Tag is empty. Tag is always one of h1 to h6, p, ul,
// ol, li, pre, code, strong, em, blockquote, hr, br, a, table, tr, th and td, so a program can create
// the element without parsing markup.
type Node struct {
	Tag      string `json:"tag,omitempty"`
	Text     string `json:"text,omitempty"`
	Link     string `json:"link,omitempty"` // destination of an a, not checked in any way
	Children []Node `json:"children,omitempty"`
}

const (
	// maxDepth and maxNodes limit a tree: a short source can nest deeply and have many elements.
	maxDepth = 40
	maxNodes = 20_000
	// maxSource and maxBlock limit what is parsed, in bytes: goldmark takes quadratic time for some
	// blocks, such as 19 s for 128 KiB of "*a_". With these limits, it takes at most a few seconds.
	maxSource = 128 << 10
	maxBlock  = 16 << 10
)

// Tree returns the elements of a document. HTML in the source is text. YAML front matter is a pre.
// Elements beyond a depth of 40 and a number of 20,000 are omitted. Tree returns nil if the source is
// larger than 128 KiB or has more than 16 KiB without a blank line.
func Tree(source []byte) []Node {
	if len(source) > maxSource {
		return nil
	}
	source = bytes.ReplaceAll(source, []byte("\r\n"), []byte("\n"))
	for block := range bytes.SplitSeq(source, []byte("\n\n")) {
		if len(block) > maxBlock {
			return nil
		}
	}
	var out []Node
	if front, rest, ok := strings.Cut(strings.TrimPrefix(string(source), "---\n"), "\n---\n"); ok && strings.HasPrefix(string(source), "---\n") {
		out = append(out, Node{Tag: "pre", Children: []Node{{Text: front}}})
		source = []byte(rest)
	}
	return append(out, parse(source)...)
}

// parse returns the elements of a document, up to the limits of a tree.
func parse(source []byte) []Node {
	b := builder{source: source, left: maxNodes}
	md := goldmark.New(goldmark.WithParserOptions(parser.WithParagraphTransformers(util.Prioritized(tables{}, 200))))
	return b.children(md.Parser().Parse(text.NewReader(source)), 0)
}

// builder converts parsed nodes. left is the number of nodes that it may still create.
type builder struct {
	source []byte
	left   int
}

func (b *builder) children(parent ast.Node, depth int) (out []Node) {
	for n := parent.FirstChild(); n != nil && depth < maxDepth && b.left > 0; n = n.NextSibling() {
		b.left--
		out = append(out, b.convert(n, depth+1)...)
	}
	return out
}

// convert returns the nodes for n: usually one; none for what is not displayed.
func (b *builder) convert(n ast.Node, depth int) []Node {
	tag := ""
	switch n := n.(type) {
	case *ast.Text:
		out := []Node{{Text: string(n.Segment.Value(b.source))}}
		if n.HardLineBreak() {
			return append(out, Node{Tag: "br"})
		}
		if n.SoftLineBreak() {
			out[0].Text += "\n"
		}
		return out
	case *ast.String:
		return []Node{{Text: string(n.Value)}}
	case *ast.RawHTML:
		return []Node{{Text: string(n.Segments.Value(b.source))}}
	case *ast.HTMLBlock:
		return []Node{{Tag: "pre", Children: []Node{{Text: string(n.Lines().Value(b.source))}}}}
	case *ast.FencedCodeBlock:
		return []Node{{Tag: "pre", Children: []Node{{Text: string(n.Lines().Value(b.source))}}}}
	case *ast.CodeBlock:
		return []Node{{Tag: "pre", Children: []Node{{Text: string(n.Lines().Value(b.source))}}}}
	case *ast.AutoLink:
		return []Node{{Tag: "a", Link: string(n.URL(b.source)), Children: []Node{{Text: string(n.Label(b.source))}}}}
	case *ast.Link:
		return []Node{{Tag: "a", Link: string(n.Destination), Children: b.children(n, depth)}}
	case *ast.ThematicBreak:
		return []Node{{Tag: "hr"}}
	case *ast.Heading:
		tag = "h" + strconv.Itoa(n.Level)
	case *ast.List:
		tag = "ul"
		if n.IsOrdered() {
			tag = "ol"
		}
	case *ast.Emphasis:
		tag = "em"
		if n.Level > 1 {
			tag = "strong"
		}
	case *ast.Paragraph:
		tag = "p"
	case *ast.ListItem:
		tag = "li"
	case *ast.CodeSpan:
		tag = "code"
	case *ast.Blockquote:
		tag = "blockquote"
	case *east.Table:
		tag = "table"
	case *east.TableHeader, *east.TableRow:
		tag = "tr"
	case *east.TableCell:
		tag = "td"
		if n.Parent().Kind() == east.KindTableHeader {
			tag = "th"
		}
		children := b.children(n, depth)
		unescape(children)
		return []Node{{Tag: tag, Children: children}}
	default: // text blocks of tight lists; images, which become their alternative text
		return b.children(n, depth)
	}
	return []Node{{Tag: tag, Children: b.children(n, depth)}}
}

// unescape removes the backslashes that a table needs before bars, also in code.
func unescape(nodes []Node) {
	for i := range nodes {
		nodes[i].Text = strings.ReplaceAll(nodes[i].Text, `\|`, "|")
		unescape(nodes[i].Children)
	}
}

// tables makes a table of the lines of a paragraph from the one above a line of only bars and dashes, as GitHub does.
// goldmark has an extension for it, which compiles regular expressions when a program starts.
type tables struct{}

func (tables) Transform(p *ast.Paragraph, reader text.Reader, _ parser.Context) {
	source, lines := reader.Source(), p.Lines()
	for i := 1; i < lines.Len(); i++ {
		under := lines.At(i)
		columns := len(cells(under, source))
		if !isUnderline(under, source) || columns != len(cells(lines.At(i-1), source)) {
			continue
		}
		table := east.NewTable()
		table.AppendChild(table, east.NewTableHeader(row(lines.At(i-1), source, columns)))
		for j := i + 1; j < lines.Len(); j++ {
			table.AppendChild(table, row(lines.At(j), source, columns))
		}
		p.Parent().InsertAfter(p.Parent(), p, table)
		if lines.SetSliced(0, i-1); lines.Len() == 0 {
			p.Parent().RemoveChild(p.Parent(), p)
		}
		return
	}
}

// isUnderline reports whether a line separates the head of a table from its rows.
func isUnderline(line text.Segment, source []byte) bool {
	for _, c := range cells(line, source) {
		dashes := strings.TrimSuffix(strings.TrimPrefix(string(c.Value(source)), ":"), ":")
		if dashes == "" || strings.Trim(dashes, "-") != "" {
			return false
		}
	}
	return true
}

// row returns a line as a row of a table, with as many cells as the table has columns.
func row(line text.Segment, source []byte, columns int) *east.TableRow {
	row := east.NewTableRow(nil)
	texts := cells(line, source)
	for i := range columns {
		cell := east.NewTableCell()
		if i < len(texts) {
			cell.Lines().Append(texts[i])
		}
		row.AppendChild(row, cell)
	}
	return row
}

// cells splits a line of a table at the bars that have no backslash before them.
func cells(line text.Segment, source []byte) (out []text.Segment) {
	trim := func(start, stop int) text.Segment {
		s := text.NewSegment(start, stop)
		s = s.TrimLeftSpace(source)
		return s.TrimRightSpace(source)
	}
	line = trim(line.Start, line.Stop)
	start, stop := line.Start, line.Stop
	if start < stop && source[start] == '|' {
		start++
	}
	if start < stop && source[stop-1] == '|' {
		stop--
	}
	for i := start; i < stop; i++ {
		if source[i] == '|' && source[i-1] != '\\' {
			out = append(out, trim(start, i))
			start = i + 1
		}
	}
	return append(out, trim(start, stop))
}
