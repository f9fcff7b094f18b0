// Package tree parses JSON, TOML and YAML into a common tree whose values have positions in the
// file.
//
// The input may be malicious: for text that is nested too deeply, has too many values or expands
// too much through aliases, parsing returns an [Error] with a position, using time and memory
// proportional to the text. Errors never quote text that may be a secret. A tree is read-only once
// [Source.Parse] has returned it.
//
// # Libraries
//
// tailscale/hujson: provides a syntax tree with byte offsets for JSON with comments, which
// encoding/json does not.
//
// pelletier/go-toml/v2/unstable: the only maintained TOML parser that provides offsets of values.
//
// go.yaml.in/yaml/v4: the YAML organization's successor to yaml.v3; its nodes have lines and
// columns.
package tree

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits for a file.
const (
	MaxSize   = 1 << 20 // in bytes; checked by the caller
	MaxDepth  = 64      // nesting depth of objects and lists
	MaxValues = 1 << 18 // number of values and keys; every use of a YAML alias is counted
)

// Kind is the type of a value.
type Kind byte

// The types of values. TOML and YAML dates are represented as strings.
const (
	Null Kind = iota
	Bool
	Number
	String
	Object
	List
)

// A Node is one value in a tree.
type Node struct {
	Kind   Kind
	Offset int // offset of the value's first byte in the source
	End    int // offset after the value's last byte; 0 if unknown, as in TOML and YAML
	// Text is a string with its escapes decoded, or a number, boolean or null as written.
	Text    string
	Members []*Member // members of an object in file order, including duplicates
	Items   []*Node   // items of a list
}

// A Member is one key of an object, with its value.
type Member struct {
	Name   string
	Offset int // offset of the key in the source
	Value  *Node
}

// Get returns the first member with the name, or nil if there is none.
func (n *Node) Get(name string) *Member {
	for _, m := range n.Members {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Index returns a map from each name to the first member with that name.
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

// The kinds of [Error].
const (
	CodeEncoding = "invalid_encoding"
	CodeSyntax   = "syntax"
	CodeTooDeep  = "too_deep"
	CodeTooLarge = "too_large"
)

// An Error explains why a text cannot be parsed.
type Error struct {
	Offset        int
	Code          string
	Message, Hint string
}

// A Source holds the text of one file.
type Source struct {
	text  []byte // content of the file without a byte order mark
	lines []int  // offset of the first byte of each line
}

// NewSource returns a Source for a text, ignoring a byte order mark. It keeps a reference to data,
// which must not be modified.
func NewSource(data []byte) *Source {
	s := &Source{text: bytes.TrimPrefix(data, []byte("\ufeff")), lines: []int{0}}
	for i, c := range s.text {
		if c == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// Position returns the 1-based line and column of a byte offset. Columns count code points; each
// byte that is not valid UTF-8 counts as one.
func (s *Source) Position(offset int) (line, column int) {
	offset = min(max(offset, 0), len(s.text))
	line = sort.SearchInts(s.lines, offset+1)
	return line, 1 + utf8.RuneCount(s.text[s.lines[line-1]:offset])
}

// offset is the inverse of Position. For a position outside the text it returns the nearest offset.
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

// Parse parses the text and returns either a tree or an error.
func (s *Source) Parse(format Format) (*Node, *Error) {
	if err := s.checkText(); err != nil {
		return nil, err
	}
	parse := s.parseJSON
	switch format {
	case TOML:
		parse = s.parseTOML
	case YAML:
		parse = s.parseYAML
	}
	root, err := parse()
	if err != nil && err.Code == CodeSyntax {
		err = s.probable(err)
	}
	return root, err
}

// probable returns a syntax error with what is probably its cause, if no editor shows that as a mistake.
func (s *Source) probable(err *Error) *Error {
	for _, start := range s.lines {
		if bytes.HasPrefix(s.text[start:], []byte("<<<<<<< ")) {
			return syntax(start, "merge conflict marker", "resolve the conflict and remove the lines with <<<<<<<, ======= and >>>>>>>")
		}
	}
	line, _ := s.Position(err.Offset)
	text, _, _ := bytes.Cut(s.text[s.lines[line-1]:], []byte("\n"))
	if bytes.ContainsFunc(text, invisible) {
		err.Hint = hintInvisible
	}
	return err
}

const hintInvisible = "the line has a no-break space or an invisible character; replace it with a normal space, or remove it"

// invisible reports whether a character looks like a space or like nothing, and parsers take it for neither.
func invisible(r rune) bool {
	return r >= utf8.RuneSelf && unicode.IsSpace(r) || r == '\u200b' || r == '\u2060' || r == '\ufeff'
}

func syntax(offset int, message, hint string) *Error {
	return &Error{Offset: offset, Code: CodeSyntax, Message: message, Hint: hint}
}

// checkText rejects files that are not text, regardless of the format.
func (s *Source) checkText() *Error {
	for i := 0; i < len(s.text); {
		r, size := utf8.DecodeRune(s.text[i:])
		if r == utf8.RuneError && size == 1 {
			return &Error{Offset: i, Code: CodeEncoding, Message: "file is not valid UTF-8 here", Hint: "save it as UTF-8"}
		}
		i += size
	}
	if i := bytes.IndexByte(s.text, 0); i >= 0 {
		return &Error{Offset: i, Code: CodeEncoding, Message: "file has a NUL character", Hint: "save it as UTF-8"}
	}
	if len(bytes.TrimSpace(s.text)) == 0 {
		return syntax(0, "file is empty", `the smallest config is {"servers": []}`)
	}
	return nil
}

// Format is the syntax of a file.
type Format string

// The supported formats. JSON may contain comments and trailing commas.
const (
	JSON Format = "json"
	TOML Format = "toml"
	YAML Format = "yaml"
)

// Detect returns the format that the name of a file has; without a known extension it is JSON.
func Detect(path string) Format {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".toml":
		return TOML
	case ".yaml", ".yml":
		return YAML
	}
	return JSON
}

// Canonical returns a value as JSON with sorted keys and without white space. Values that JSON does
// not support, such as infinities in YAML, are converted to strings. If a key is duplicated, the
// first value is used.
func Canonical(n *Node) json.RawMessage { return n.append(nil) }

func (n *Node) append(b []byte) []byte {
	switch n.Kind {
	case Null:
		return append(b, "null"...)
	case Object:
		members := n.Members
		first := n.Index()
		members = slices.DeleteFunc(slices.Clone(members), func(m *Member) bool { return first[m.Name] != m })
		slices.SortFunc(members, func(x, y *Member) int { return strings.Compare(x.Name, y.Name) })
		b = append(b, '{')
		for i, m := range members {
			if i > 0 {
				b = append(b, ',')
			}
			b = m.Value.append(append(appendString(b, m.Name), ':'))
		}
		return append(b, '}')
	case List:
		b = append(b, '[')
		for i, item := range n.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.append(b)
		}
		return append(b, ']')
	case Bool, Number:
		if json.Valid([]byte(n.Text)) {
			return append(b, n.Text...)
		}
	}
	return appendString(b, n.Text)
}

func appendString(b []byte, s string) []byte {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // encoding a string as JSON never fails
	return append(b, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...)
}
