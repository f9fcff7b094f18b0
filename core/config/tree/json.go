package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tailscale/hujson"
)

// parseJSON parses JSON with comments and trailing commas.
func (s *Source) parseJSON() (*Node, *Error) {
	// Check the limits first, because hujson recurses into each level, and its tree needs about a
	// hundred bytes for a one-byte value.
	if err := s.checkLimits(); err != nil {
		return nil, err
	}
	// hujson requires a newline after a line comment, even at the end of the file.
	input := make([]byte, 0, len(s.text)+1)
	input = append(append(input, s.text...), '\n')
	value, err := hujson.Parse(input)
	if err != nil {
		return nil, s.refused(err)
	}
	return fromJSON(&value), nil
}

// refused returns an error of hujson with its position, whose column counts bytes. A message about a literal
// ends before the text that it quotes, which may be a secret.
func (s *Source) refused(err error) *Error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return syntax(len(bytes.TrimRight(s.text, " \t\r\n")), "unexpected end of file", "close what is open: a string, a comment, {, or [")
	}
	line, column := 1, 1
	_, _ = fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column)
	message, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), fmt.Sprintf("hujson: line %d, column %d: ", line, column)), ": ")
	hint := ""
	if !strings.Contains(message, " after ") { // a value or the name of a member was expected
		hint = `names and strings are in double quotes on one line, with \\ for a backslash; other values are numbers, true, false and null`
	}
	return syntax(min(s.lines[min(line, len(s.lines))-1]+column-1, len(s.text)), message, hint)
}

func tooDeep(offset int) *Error {
	return &Error{Offset: offset, Code: CodeTooDeep, Message: fmt.Sprintf("nested deeper than %d levels", MaxDepth)}
}

func fromJSON(v *hujson.Value) *Node {
	n := &Node{Offset: v.StartOffset, End: v.EndOffset}
	switch t := v.Value.(type) {
	case *hujson.Object:
		n.Kind = Object
		n.Members = make([]*Member, len(t.Members))
		for i := range t.Members {
			m := &t.Members[i]
			name, _ := m.Name.Value.(hujson.Literal)
			n.Members[i] = &Member{Name: literal(name), Offset: m.Name.StartOffset, Value: fromJSON(&m.Value)}
		}
	case *hujson.Array:
		n.Kind = List
		n.Items = make([]*Node, len(t.Elements))
		for i := range t.Elements {
			n.Items[i] = fromJSON(&t.Elements[i])
		}
	case hujson.Literal:
		n.Text = literal(t)
		switch t.Kind() {
		case '"':
			n.Kind = String
		case '0':
			n.Kind = Number
		case 't', 'f':
			n.Kind = Bool
		}
	}
	return n
}

// literal returns the value of a literal, whose text is valid UTF-8. It decodes only strings with
// escapes, because that takes longer than everything else.
func literal(t hujson.Literal) string {
	if t.Kind() == '"' && bytes.IndexByte(t, '\\') < 0 {
		return string(t[1 : len(t)-1])
	}
	return t.String()
}

// checkLimits returns an error if brackets are nested deeper than MaxDepth, or if there are more than MaxValues
// values and keys, whatever else is wrong with the text.
func (s *Source) checkLimits() *Error {
	t, depth, values, word := s.text, 0, 0, false
	for i := 0; i < len(t); i++ {
		start, inWord := i, false
		switch c := t[i]; {
		case c == '"':
			for i++; i < len(t) && t[i] != '"'; i++ {
				if t[i] == '\\' {
					i++
				}
			}
			values++
		case bytes.HasPrefix(t[i:], []byte("//")), bytes.HasPrefix(t[i:], []byte("/*")):
			end := map[byte]string{'/': "\n", '*': "*/"}[t[i+1]]
			n := bytes.Index(t[i+2:], []byte(end))
			if n < 0 {
				return nil
			}
			i += n + 1 + len(end)
		case c == '{' || c == '[':
			values++
			if depth++; depth > MaxDepth {
				return tooDeep(i)
			}
		case c == '}' || c == ']':
			depth--
		case strings.IndexByte(" \t\r\n,:", c) < 0: // a number, true, false or null
			if inWord = true; !word {
				values++
			}
		}
		if word = inWord; values > MaxValues {
			return &Error{Offset: start, Code: CodeTooLarge, Message: fmt.Sprintf("more than %d values", MaxValues)}
		}
	}
	return nil
}
