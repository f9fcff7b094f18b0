// Package tree reads JSON, TOML and YAML into one tree whose values know their positions in the
// file.
//
// Every reader accepts hostile input: text that is too deep, has too many values or grows by
// aliases ends in an [Error] with a position, after time and memory proportional to the text.
// Errors never quote what may be a secret. A tree is read-only once [Source.Parse] has
// returned, and needs no goroutine.
//
// # Libraries
//
// tailscale/hujson: a syntax tree of JSON with comments that has byte offsets, which
// encoding/json does not give. pelletier/go-toml/v2/unstable: the only maintained
// TOML parser whose values have offsets. go.yaml.in/yaml/v4: the YAML organization's
// successor of yaml.v3, whose nodes have lines and columns.
package tree

import (
	"bytes"
	"sort"
	"unicode/utf8"
)

// Limits of a file.
const (
	MaxSize   = 1 << 20 // bytes; the caller checks it
	MaxDepth  = 64      // nested objects and lists
	MaxValues = 1 << 18 // values and keys; those behind YAML aliases count each time
)

// Kind is the type of a value.
type Kind byte

// The kinds. Dates of TOML and YAML are strings.
const (
	Null Kind = iota
	Bool
	Number
	String
	Object
	List
)

// A Node is one value.
type Node struct {
	Kind   Kind
	Offset int // of the first byte of the value in the source
	// Text is the content of a string without escapes, or a number, boolean or null
	// as written.
	Text    string
	Members []*Member // of an object, in the order of the file, duplicates included
	Items   []*Node   // of a list
}

// A Member is one key of an object with its value.
type Member struct {
	Name   string
	Offset int // of the key in the source
	Value  *Node
}

// Get returns the first member with the name, nil if there is none.
func (n *Node) Get(name string) *Member {
	for _, m := range n.Members {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Index returns the first member of each name.
func (n *Node) Index() map[string]*Member {
	index := make(map[string]*Member, len(n.Members))
	for _, m := range n.Members {
		if index[m.Name] == nil {
			index[m.Name] = m
		}
	}
	return index
}

// True reports whether n is the boolean true.
func (n *Node) True() bool { return n.Kind == Bool && n.Text == "true" }

// Kinds of an [Error].
const (
	CodeEncoding = "invalid_encoding"
	CodeSyntax   = "syntax"
	CodeTooDeep  = "too_deep"
	CodeTooLarge = "too_large"
)

// An Error is the first defect that keeps a text from being parsed.
type Error struct {
	Offset        int
	Code          string
	Message, Hint string
}

// A Source is the text of one file.
type Source struct {
	text  []byte // without byte order mark
	lines []int  // offset of the first byte of each line
}

// NewSource returns the text without its byte order mark. It keeps data, which must
// not change.
func NewSource(data []byte) *Source {
	s := &Source{text: bytes.TrimPrefix(data, []byte("\ufeff")), lines: []int{0}}
	for i, c := range s.text {
		if c == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// Position returns the line and column, both 1-based, of a byte offset. Columns
// count code points; a byte that is not UTF-8 counts as one.
func (s *Source) Position(offset int) (line, column int) {
	offset = min(max(offset, 0), len(s.text))
	line = sort.SearchInts(s.lines, offset+1)
	return line, 1 + utf8.RuneCount(s.text[s.lines[line-1]:offset])
}

// offset is the inverse of Position. A position outside the text gives the nearest offset.
func (s *Source) offset(line, column int) int {
	if line < 1 {
		return 0
	}
	if line > len(s.lines) {
		return len(s.text)
	}
	offset := s.lines[line-1]
	for ; column > 1 && offset < len(s.text); column-- {
		_, size := utf8.DecodeRune(s.text[offset:])
		offset += size
	}
	return offset
}

// Parse reads the text. It returns a tree or an error, never both.
func (s *Source) Parse(format Format) (*Node, *Error) {
	if err := s.checkText(); err != nil {
		return nil, err
	}
	switch format {
	case TOML:
		return s.parseTOML()
	case YAML:
		return s.parseYAML()
	}
	return s.parseJSON()
}

func syntax(offset int, message, hint string) *Error {
	return &Error{Offset: offset, Code: CodeSyntax, Message: message, Hint: hint}
}
