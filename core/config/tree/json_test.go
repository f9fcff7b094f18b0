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
		{"// only\n", `1:8 unexpected end of file`},
		{`{"servers": []`, `1:15 unexpected end of file`},
		{`{"a": "open`, `1:12 unexpected end of file`},
		{`{"servers": [}`, `1:14 invalid character '}' at start of value`},
		{`{"servers": []}}`, `1:16 invalid character '}' after top-level value`},
		{"{\"a\": 1\n \"b\": 2}", `2:2 invalid character '"' after object value (expecting ',' or '}')`},
		{`{"a": True}`, `1:7 invalid literal`},
		{"{\"a\": \"open\n\", \"b\": 1}", `1:7 invalid literal`},
		{`{"ä": "x" 1}`, `1:11 invalid character '1' after object value (expecting ',' or '}')`},
		{"{\"a\": \u00a01}", `1:7 invalid character '\u00a0' at start of value`},
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
