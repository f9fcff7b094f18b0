package vault

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// maxTagBytes bounds one tag.
const maxTagBytes = 200

// tagNode is a tag in the text of a note.
type tagNode struct {
	ast.BaseInline
	tag string
}

// Kind makes it a node; nothing renders one.
func (*tagNode) Kind() ast.NodeKind { return ast.KindText }

// Dump makes it a node.
func (n *tagNode) Dump(src []byte, level int) { ast.DumpHelper(n, src, level, nil, nil) }

// tagParser finds tags where goldmark looks for inline elements: not in code, not in
// links and not behind a backslash.
type tagParser struct{}

// Trigger is what a tag begins with.
func (tagParser) Trigger() []byte { return []byte{'#'} }

// Parse takes a tag and leaves its text where it was, for headings and the like.
func (tagParser) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	before := block.PrecendingCharacter()
	if unicode.IsLetter(before) || unicode.IsDigit(before) || strings.ContainsRune("_-/&#", before) {
		return nil // the end of a word or of a URL
	}
	line, segment := block.PeekLine()
	end := 1
	for end < len(line) {
		r, size := utf8.DecodeRune(line[end:])
		if !tagRune(r) {
			break
		}
		end += size
	}
	tag, ok := cleanTag(string(line[1:end]))
	if !ok {
		return nil
	}
	n := &tagNode{tag: tag}
	n.AppendChild(n, ast.NewTextSegment(segment.WithStop(segment.Start+end)))
	block.Advance(end)
	return n
}

// tagRune reports whether a tag may have a character: letters, digits, emoji and
// three signs. Those that Obsidian refuses are punctuation and white space.
func tagRune(r rune) bool {
	switch {
	case r == '_' || r == '-' || r == '/' || r == '\u200d': // the last joins emoji
		return true
	case r < utf8.RuneSelf:
		return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	return r != utf8.RuneError && unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.So, unicode.Sk)
}

// cleanTag returns a tag without a sign before it and slashes around it. It is one if
// it has only what a tag may have, no empty level and something besides digits.
func cleanTag(tag string) (string, bool) {
	tag = strings.Trim(strings.TrimPrefix(tag, "#"), "/")
	ok := tag != "" && len(tag) <= maxTagBytes && !strings.Contains(tag, "//") &&
		!strings.ContainsFunc(tag, func(r rune) bool { return !tagRune(r) }) &&
		strings.ContainsFunc(tag, func(r rune) bool { return !unicode.IsDigit(r) && r != '/' })
	return tag, ok
}
