package tree

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// explainEnd says that the text stops too early: it points at the end
// and names what is still open.
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
		fmt.Sprintf("file ends too early: the %q of line %d, column %d is not closed", s.text[bracket:bracket+1], line, column),
		fmt.Sprintf("add the missing %q", closing))
}

// closed reports whether the string that t begins with has its closing quote.
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

// explainString says what is wrong with the string at the offset, pointing at the wrong byte.
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
				return syntax(i-1, `\u needs four hexadecimal digits`, `write a backslash as \\`)
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

// explainClose says why a closing bracket is not allowed there.
func (s *Source) explainClose(offset int, r rune, o outline) *Error {
	if len(o.open) == 0 {
		return syntax(offset, fmt.Sprintf("%q has no opening bracket", string(r)), "remove it")
	}
	bracket := o.open[len(o.open)-1]
	if (s.text[bracket] == '{') != (r == '}') {
		line, column := s.Position(bracket)
		return syntax(offset, fmt.Sprintf("%q cannot close the %q of line %d, column %d", string(r), s.text[bracket:bracket+1], line, column), "")
	}
	return syntax(offset, "expected a value here", "")
}

// explainWord says what is wrong with a bare word. Only short words are quoted: a longer one
// might be a secret without its quotes.
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
		return syntax(offset, "key is not in quotes", `keys are strings: "key"`)
	}
	return syntax(offset, "text without quotes", `strings are in double quotes: "…"`)
}
