package tree

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// parseJSON parses JSON with comments and trailing commas.
func (s *Source) parseJSON() (*Node, *Error) {
	// Check the limits first, because hujson recurses into each level, and its tree needs about a
	// hundred bytes for a one-byte value.
	switch o := s.scan(len(s.text)); {
	case len(o.open) > MaxDepth:
		return nil, tooDeep(o.open[MaxDepth])
	case o.values > MaxValues:
		return nil, &Error{Offset: o.last, Code: CodeTooLarge, Message: fmt.Sprintf("more than %d values", MaxValues)}
	}
	// hujson requires a newline after a line comment, even at the end of the file.
	input := make([]byte, 0, len(s.text)+1)
	input = append(append(input, s.text...), '\n')
	value, err := hujson.Parse(input)
	if err == nil {
		return fromJSON(&value), nil
	}
	// Use only the line and the column (which counts bytes), because the error text quotes the
	// file, including any secrets.
	var line, column int
	if _, scanErr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); scanErr != nil ||
		line < 1 || line > len(s.lines)+1 {
		line, column = 1, 1
	}
	offset := len(s.text)
	if line <= len(s.lines) {
		offset = min(s.lines[line-1]+column-1, len(s.text))
	}
	return nil, s.explain(offset)
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

// An outline describes the text before an offset: the offsets of the open brackets, of the last
// token, and of the token before it (0 if none). The offset of a string is that of its opening
// quote; the offset of a bare word is that of its last byte.
type outline struct {
	open         []int
	last, before int
	values       int // number of values and keys so far
}

// afterKey reports whether the last token is the key of an object member.
func (o outline) afterKey(t []byte) bool {
	return len(o.open) > 0 && t[o.open[len(o.open)-1]] == '{' && t[o.last] == '"' &&
		(t[o.before] == '{' || t[o.before] == ',')
}

// afterValue reports whether the last token ends a value.
func (o outline) afterValue(t []byte, offset int) bool {
	return o.last < offset && !o.afterKey(t) &&
		(t[o.last] == '"' || t[o.last] == '}' || t[o.last] == ']' || isWordByte(t[o.last]))
}

// wantsKey reports whether the next token must be a key.
func (o outline) wantsKey(t []byte) bool {
	return len(o.open) > 0 && t[o.open[len(o.open)-1]] == '{' && (t[o.last] == '{' || t[o.last] == ',')
}

// scan reads the tokens before end. It stops when more than MaxDepth brackets are open or MaxValues
// values have been read.
func (s *Source) scan(end int) outline {
	var o outline
	t := s.text[:end]
	token := func(i int) { o.before, o.last = o.last, i }
	value := func(i int) { token(i); o.values++ }
	for i := 0; i < len(t); {
		if o.values > MaxValues {
			return o
		}
		switch c := t[i]; {
		case c == '"':
			value(i)
			for i++; i < len(t) && t[i] != '"'; i++ {
				if t[i] == '\\' {
					i++
				}
			}
			i++
		case c == '/' && bytes.HasPrefix(t[i:], []byte("//")):
			i = skipPast(t, i+2, "\n")
		case c == '/' && bytes.HasPrefix(t[i:], []byte("/*")):
			i = skipPast(t, i+2, "*/")
		case c == '{' || c == '[':
			value(i)
			if o.open = append(o.open, i); len(o.open) > MaxDepth {
				return o
			}
			i++
		case c == '}' || c == ']':
			token(i)
			if len(o.open) > 0 {
				o.open = o.open[:len(o.open)-1]
			}
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
		default:
			if n := wordLength(t[i:]); n > 0 {
				i += n
				value(i - 1)
			} else {
				i++
				token(i - 1)
			}
		}
	}
	return o
}

func skipPast(t []byte, from int, end string) int {
	if i := bytes.Index(t[min(from, len(t)):], []byte(end)); i >= 0 {
		return from + i + len(end)
	}
	return len(t)
}

// explain returns an error that tells the author of the file why parsing failed at the offset.
func (s *Source) explain(offset int) *Error {
	o := s.scan(offset)
	afterValue := o.afterValue(s.text, offset)
	rest := s.text[offset:]
	if len(bytes.TrimSpace(rest)) == 0 {
		return s.explainEnd(o)
	}
	r, _ := utf8.DecodeRune(rest)
	word := rest[:wordLength(rest)]
	if err := space(offset, r); err != nil {
		return err
	}
	switch {
	case bytes.HasPrefix(rest, []byte("/*")):
		return syntax(offset, "comment is not closed", `close it with "*/"`)
	case r != ':' && r != '=' && o.last < offset && o.afterKey(s.text):
		return syntax(offset, `expected ":" and a value after the key`, "")
	case afterValue && len(o.open) == 0:
		if s.text[offset] == ':' {
			return syntax(offset, "key outside an object", "add { before the first key and } after the last key")
		}
		return syntax(offset, "text after the end of the document", "a config file must contain exactly one object")
	case afterValue && (r == '"' || r == '{' || r == '[' || len(word) > 0):
		return syntax(offset, "missing comma before this value", "")
	case r == '"':
		return s.explainString(offset)
	case r == '`':
		return syntax(offset, "unexpected backquote", "remove the Markdown around the JSON, such as ```json")
	case r == '\'':
		return syntax(offset, "a string cannot be in single quotes", `write strings in double quotes: "…"`)
	case r == '“' || r == '”' || r == '‘' || r == '’':
		return syntax(offset, "a string cannot be in typographic quotes", `use the straight double quote: "`)
	case r == '#':
		return syntax(offset, `"#" does not start a comment`, "start comments with //, or put them between /* and */")
	case r == '=':
		return syntax(offset, `expected ":" between key and value, found "="`, "")
	case r == '}' || r == ']':
		return s.explainClose(offset, r, o)
	case r == ',':
		return syntax(offset, "comma without a value before it", "")
	case len(word) > 0:
		return s.explainWord(offset, string(word), o)
	case unicode.IsPrint(r):
		return syntax(offset, fmt.Sprintf("unexpected character %q", r), "")
	}
	return syntax(offset, fmt.Sprintf("unexpected character %U", r), "")
}

func isWordByte(c byte) bool {
	return c == '-' || c == '+' || c == '.' || c == '_' || c == '$' ||
		'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func wordLength(t []byte) int {
	n := 0
	for n < len(t) && isWordByte(t[n]) {
		n++
	}
	return n
}

// explainEnd returns an error for a text that ends prematurely, and specifies which brackets are still
// open.
func (s *Source) explainEnd(o outline) *Error {
	end := len(bytes.TrimRight(s.text, " \t\r\n"))
	if o.last < len(s.text) && s.text[o.last] == '"' && !closed(s.text[o.last:end]) {
		return s.explainString(o.last)
	}
	if len(o.open) == 0 {
		return syntax(end, "file ends where a value was expected", least)
	}
	bracket := o.open[len(o.open)-1]
	line, column := s.Position(bracket)
	closing := map[byte]string{'{': "}", '[': "]"}[s.text[bracket]]
	return syntax(end,
		fmt.Sprintf("unexpected end of file: the %q at line %d, column %d is not closed", s.text[bracket:bracket+1], line, column),
		fmt.Sprintf("add the missing %q", closing))
}

// closed reports whether the string at the start of t has a closing quote.
func closed(t []byte) bool {
	for i := 1; i < len(t); i++ {
		switch t[i] {
		case '\\':
			i++
		case '"':
			return true
		}
	}
	return false
}

// explainString returns an error that describes what is wrong with the string at the offset, and
// where.
func (s *Source) explainString(offset int) *Error {
	t := s.text
	for i := offset + 1; i < len(t); i++ {
		switch c := t[i]; {
		case c == '"':
			return syntax(offset, "invalid string", "")
		case c == '\n' || c == '\r':
			return syntax(offset, "string is not closed on its line", `add the closing ", or write a line break as \n`)
		case c == '\t':
			return syntax(i, "tab inside a string", `write it as \t`)
		case c < ' ':
			return syntax(i, fmt.Sprintf("control character %U inside a string", c), "")
		case c == '\\':
			i++
			if i == len(t) {
				break
			}
			if t[i] == 'u' && !fourHex(t[i+1:]) {
				return syntax(i-1, `\u must be followed by four hexadecimal digits`, `write a backslash as \\`)
			}
			if bytes.IndexByte([]byte(`"\/bfnrtu`), t[i]) < 0 {
				return syntax(i-1, "invalid escape in a string", `write a backslash as \\`)
			}
		}
	}
	return syntax(offset, "string is not closed", `add the closing "`)
}

func fourHex(t []byte) bool {
	if len(t) < 4 {
		return false
	}
	for _, c := range t[:4] {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return false
		}
	}
	return true
}

// explainClose returns an error that explains why the closing bracket at the offset is wrong.
func (s *Source) explainClose(offset int, r rune, o outline) *Error {
	if len(o.open) == 0 {
		return syntax(offset, fmt.Sprintf("%q has no opening bracket", string(r)), "remove it")
	}
	bracket := o.open[len(o.open)-1]
	if (s.text[bracket] == '{') != (r == '}') {
		line, column := s.Position(bracket)
		return syntax(offset, fmt.Sprintf("%q cannot close the %q at line %d, column %d", string(r), s.text[bracket:bracket+1], line, column), "")
	}
	return syntax(offset, "expected a value here", "")
}

// explainWord returns an error for a bare word. It quotes only short words, because a longer word
// may be an unquoted secret.
func (s *Source) explainWord(offset int, word string, o outline) *Error {
	literals := map[string]string{"True": "true", "TRUE": "true", "False": "false", "FALSE": "false",
		"None": "null", "nil": "null", "NULL": "null", "Null": "null", "undefined": "null"}
	if right, ok := literals[word]; ok {
		return syntax(offset, fmt.Sprintf("%s is not JSON", word), fmt.Sprintf("write %s", right))
	}
	if c := word[0]; c == '-' || c == '+' || c == '.' || '0' <= c && c <= '9' {
		return syntax(offset, "invalid number", "")
	}
	if o.wantsKey(s.text) {
		if utf8.RuneCountInString(word) <= 20 {
			return syntax(offset, fmt.Sprintf("key %s is not in quotes", word), fmt.Sprintf("write %q", word))
		}
		return syntax(offset, "key is not in quotes", `put the key in double quotes: "key"`)
	}
	return syntax(offset, "text without quotes", `strings are in double quotes: "…"`)
}
