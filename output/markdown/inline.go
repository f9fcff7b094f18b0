package markdown

import (
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
)

// Styles of ANSI terminals.
const (
	bold  = "\x1b[1m"
	cyan  = "\x1b[36m"
	reset = "\x1b[0m"
)

// A fragment is text in one style.
type fragment struct {
	text  string
	style string // "" for none
}

// inline returns the text in a node as fragments; style is that of text without markup.
func (r *renderer) inline(parent ast.Node, style string) []fragment {
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
			out = append(out, r.inline(n, cyan)...)
		case *ast.Emphasis:
			out = append(out, r.inline(n, bold)...)
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

// wrap breaks fragments at spaces into lines of at most width columns.
func (r *renderer) wrap(fragments []fragment, width int) []string {
	var (
		lines      []string
		line, word strings.Builder
		lineLen    int
		wordLen    int
	)
	flush := func() { // appends the word, which is complete, to the line or begins a new line with it
		if wordLen == 0 {
			return
		}
		if lineLen > 0 && lineLen+1+wordLen > width {
			lines = append(lines, line.String())
			line.Reset()
			lineLen = 0
		}
		if lineLen > 0 {
			line.WriteByte(' ')
			lineLen++
		}
		line.WriteString(word.String())
		lineLen += wordLen
		word.Reset()
		wordLen = 0
	}
	for _, f := range fragments {
		parts := strings.Split(strings.ReplaceAll(f.text, "\n", " "), " ")
		for i, part := range parts {
			if i > 0 {
				flush()
			}
			if part == "" {
				continue
			}
			wordLen += utf8.RuneCountInString(part)
			if r.styles && f.style != "" {
				part = f.style + part + reset
			}
			word.WriteString(part)
		}
	}
	flush()
	if lineLen > 0 {
		lines = append(lines, line.String())
	}
	return lines
}
