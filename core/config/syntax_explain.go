package config

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// syntaxErrorAtEnd explains that the text stops too early: it points at the end
// and names what is still open.
func (d *document) syntaxErrorAtEnd(o outline) {
	end := len(bytes.TrimRight(d.source, " \t\r\n"))
	if o.last < len(d.source) && d.source[o.last] == '"' && !closed(d.source[o.last:end]) {
		d.badString(o.last)
		return
	}
	if len(o.open) == 0 {
		d.errorAt(end, "", CodeSyntax, "file ends where a value was expected", `the least is {"servers": []}`)
		return
	}
	bracket := o.open[len(o.open)-1]
	line, column := d.position(bracket)
	closing := map[byte]string{'{': "}", '[': "]"}[d.source[bracket]]
	d.errorAt(end, "", CodeSyntax,
		fmt.Sprintf("file ends too early: the %q of line %d, column %d is not closed", d.source[bracket:bracket+1], line, column),
		fmt.Sprintf("add the missing %q", closing))
}

// closed reports whether the string that begins t ends in it.
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

// badString explains what is wrong in the string at the offset, at the byte that
// is wrong.
func (d *document) badString(offset int) {
	at := func(offset int, message, hint string) { d.errorAt(offset, "", CodeSyntax, message, hint) }
	t := d.source
	for i := offset + 1; i < len(t); i++ {
		switch c := t[i]; {
		case c == '"':
			at(offset, "invalid string", "")
			return
		case c == '\n' || c == '\r':
			at(offset, "string is not closed on its line", `add the closing ", or write a line break as \n`)
			return
		case c == '\t':
			at(i, "tab inside a string", `write it as \t`)
			return
		case c < ' ':
			at(i, fmt.Sprintf("control character %U inside a string", c), "")
			return
		case c == '\\':
			i++
			if i == len(t) {
				break
			}
			if t[i] == 'u' && !fourHex(t[i+1:]) {
				at(i-1, `\u needs four hexadecimal digits`, `write a backslash as \\`)
				return
			}
			if bytes.IndexByte([]byte(`"\/bfnrtu`), t[i]) < 0 {
				at(i-1, "invalid escape in a string", `write a backslash as \\`)
				return
			}
		}
	}
	at(offset, "string is not closed", `add the closing "`)
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

// badClose explains a closing bracket that came at the wrong place.
func (d *document) badClose(offset int, r rune, o outline) {
	at := func(message, hint string) { d.errorAt(offset, "", CodeSyntax, message, hint) }
	if len(o.open) == 0 {
		at(fmt.Sprintf("%q closes nothing", string(r)), "remove it")
		return
	}
	bracket := o.open[len(o.open)-1]
	if (d.source[bracket] == '{') != (r == '}') {
		line, column := d.position(bracket)
		at(fmt.Sprintf("%q cannot close the %q of line %d, column %d", string(r), d.source[bracket:bracket+1], line, column), "")
		return
	}
	at("expected a value here", "")
}

// badWord explains a bare word. Short words are quoted from the file, longer
// ones might be a secret that lost its quotes.
func (d *document) badWord(offset int, word string, o outline) {
	at := func(message, hint string) { d.errorAt(offset, "", CodeSyntax, message, hint) }
	literals := map[string]string{"True": "true", "TRUE": "true", "False": "false", "FALSE": "false",
		"None": "null", "nil": "null", "NULL": "null", "Null": "null", "undefined": "null"}
	if right, ok := literals[word]; ok {
		at(fmt.Sprintf("%s is not JSON", word), fmt.Sprintf("write %s", right))
		return
	}
	if c := word[0]; c == '-' || c == '+' || c == '.' || '0' <= c && c <= '9' {
		at("invalid number", "")
		return
	}
	if o.wantsKey(d.source) {
		if utf8.RuneCountInString(word) <= 20 {
			at(fmt.Sprintf("key %s is not in quotes", word), fmt.Sprintf("write %q", word))
			return
		}
		at("key is not in quotes", `keys are strings: "key"`)
		return
	}
	at("text without quotes", `strings are in double quotes: "…"`)
}
