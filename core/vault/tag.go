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

// Kind implements ast.Node; tags are never rendered.
func (*tagNode) Kind() ast.NodeKind { return ast.KindText }

// Dump implements ast.Node.
func (n *tagNode) Dump(src []byte, level int) { ast.DumpHelper(n, src, level, nil, nil) }

// tagParser is an inline parser for tags: goldmark does not call it within code and
// links or after a backslash.
type tagParser struct{}

// Trigger implements parser.InlineParser.
func (tagParser) Trigger() []byte { return []byte{'#'} }

// Parse implements parser.InlineParser. The text of the tag remains as a child, so
// that it is part of a heading, for example.
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

// tagRune reports whether a character is allowed in a tag, as in Obsidian: letters,
// digits, emoji, "_", "-" and "/", but no other punctuation and no white space.
func tagRune(r rune) bool {
	switch {
	case r == '_' || r == '-' || r == '/' || r == '\u200d': // the last joins emoji
		return true
	case r < utf8.RuneSelf:
		return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	return r != utf8.RuneError && unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.So, unicode.Sk)
}

// cleanTag removes a leading "#" and surrounding slashes. ok is false if the tag has
// an invalid character, an empty level, or only digits.
func cleanTag(tag string) (string, bool) {
	tag = strings.Trim(strings.TrimPrefix(tag, "#"), "/")
	ok := tag != "" && len(tag) <= maxTagBytes && !strings.Contains(tag, "//") &&
		!strings.ContainsFunc(tag, func(r rune) bool { return !tagRune(r) }) &&
		strings.ContainsFunc(tag, func(r rune) bool { return !unicode.IsDigit(r) && r != '/' })
	return tag, ok
}
