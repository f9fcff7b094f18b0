package tree

import (
	"fmt"
	"strings"
	"testing"
)

// Each invalid text has one error, with its position.
func TestJSONSyntax(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", `1:1 file is empty`},
		{"// only\n", `1:8 file ends where a value was expected`},
		{`{'servers': []}`, `1:2 a string cannot be in single quotes`},
		{`{servers: []}`, `1:2 key servers is not in quotes`},
		{`{"servers": [}`, `1:14 "}" cannot close the "[" at line 1, column 13`},
		{`{"servers": []`, `1:15 unexpected end of file: the "{" at line 1, column 1 is not closed`},
		{`{"servers": []}}`, `1:16 text after the end of the document`},
		{`}`, `1:1 "}" has no opening bracket`},
		{"{\"a\": 1\n \"b\": 2}", `2:2 missing comma before this value`},
		{`{"a": [1 2]}`, `1:10 missing comma before this value`},
		{`{"a" 1}`, `1:6 expected ":" and a value after the key`},
		{`{"a": ,}`, `1:7 comma without a value before it`},
		{`[1,,2]`, `1:4 comma without a value before it`},
		{`{"a": True}`, `1:7 True is not JSON`},
		{`{"a": 01}`, `1:7 invalid number`},
		{"{\n # comment\n}", `2:2 "#" does not start a comment`},
		{"{\"a\": \"open\n\", \"b\": 1}", `1:7 string is not closed on its line`},
		{`{"a": "open`, `1:7 string is not closed`},
		{`{"ä": "C:\dir"}`, `1:10 invalid escape in a string`},
		{`{"a": "\u12"}`, `1:8 \u must be followed by four hexadecimal digits`},
		{"{\"a\": \"x\ty\"}", `1:9 tab inside a string`},
		{"{\"a\": \u00a01}", `1:7 unexpected no-break space`},
		{`{"a": @}`, `1:7 unexpected character '@'`},
		{"{\"a\": \"\xff\"}", `1:8 file is not valid UTF-8 here`},
		{"{\"a\": 1,\n<<<<<<< HEAD\n\"b\": 2\n=======\n", `2:1 merge conflict marker`},
		{strings.Repeat(`[`, MaxDepth+1), fmt.Sprintf(`1:%d nested deeper than 64 levels`, MaxDepth+1)},
		{strings.Repeat(`{"a":`, 100_000), `1:321 nested deeper than 64 levels`},
	} {
		if got := failure(test.text, JSON); got != test.want {
			t.Errorf("%.40q:\n got %s\nwant %s", test.text, got, test.want)
		}
	}
	deep := strings.Repeat(`[`, MaxDepth) + strings.Repeat(`]`, MaxDepth)
	if got := failure(deep, JSON); got != "" {
		t.Errorf("at the limit of depth: %s", got)
	}
}

// failure returns the error of a text with its position, "" if there is none.
func failure(text string, format Format) string {
	s := NewSource([]byte(text))
	n, err := s.Parse(format)
	switch {
	case (n == nil) == (err == nil):
		return fmt.Sprintf("tree %v and error %v", n, err)
	case err == nil:
		return ""
	}
	line, column := s.Position(err.Offset)
	return fmt.Sprintf("%d:%d %s", line, column, err.Message)
}
