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
		{" \n\t\n", `1:1 file is empty`},
		{"// only\n", `1:8 file ends where a value was expected`},
		{`{'servers': []}`, `1:2 a string cannot be in single quotes`},
		{`{"servers": ['a']}`, `1:14 a string cannot be in single quotes`},
		{`{“servers”: []}`, `1:2 a string cannot be in typographic quotes`},
		{`{servers: []}`, `1:2 key servers is not in quotes`},
		{"```json\n{}\n```", "1:1 unexpected backquote"},
		{`"mcpServers": {}`, `1:13 key outside an object`},
		{`{"a": docs}`, `1:7 text without quotes`},
		{`{"servers": [}`, `1:14 "}" cannot close the "[" at line 1, column 13`},
		{`{"servers": []`, `1:15 unexpected end of file: the "{" at line 1, column 1 is not closed`},
		{"{\n  \"servers\": [\n    {\"id\": 1}\n\n", `3:14 unexpected end of file: the "[" at line 2, column 14 is not closed`},
		{`{"servers": []}}`, `1:16 text after the end of the document`},
		{`{"servers": []} {}`, `1:17 text after the end of the document`},
		{`}`, `1:1 "}" has no opening bracket`},
		{"{\"a\": 1\n \"b\": 2}", `2:2 missing comma before this value`},
		{`{"a": [1 2]}`, `1:10 missing comma before this value`},
		{`{"a": [{} {}]}`, `1:11 missing comma before this value`},
		{`{"a": true "b": 1}`, `1:12 missing comma before this value`},
		{`{"a" 1}`, `1:6 expected ":" and a value after the key`},
		{`{"a" "b"}`, `1:6 expected ":" and a value after the key`},
		{`{"a"}`, `1:5 expected ":" and a value after the key`},
		{`{"a", "b": 1}`, `1:5 expected ":" and a value after the key`},
		{`{"a" = 1}`, `1:6 expected ":" between key and value, found "="`},
		{`{"a": }`, `1:7 expected a value here`},
		{`{"a": ,}`, `1:7 comma without a value before it`},
		{`{,}`, `1:2 comma without a value before it`},
		{`[1,,2]`, `1:4 comma without a value before it`},
		{`{"a": True}`, `1:7 True is not JSON`},
		{`{"a": None}`, `1:7 None is not JSON`},
		{`{"a": 01}`, `1:7 invalid number`},
		{`{"a": +1}`, `1:7 invalid number`},
		{`{"a": .5}`, `1:7 invalid number`},
		{"{\n # comment\n}", `2:2 "#" does not start a comment`},
		{"{} /* open", `1:4 comment is not closed`},
		{"{\"a\": \"open\n\", \"b\": 1}", `1:7 string is not closed on its line`},
		{`{"a": "open`, `1:7 string is not closed`},
		{`{"ä": "C:\dir"}`, `1:10 invalid escape in a string`},
		{`{"a": "\u12"}`, `1:8 \u must be followed by four hexadecimal digits`},
		{"{\"a\": \"x\ty\"}", `1:9 tab inside a string`},
		{"{\"a\": \"x\x01y\"}", `1:9 control character U+0001 inside a string`},
		{"{\"a\": \u00a01}", `1:7 unexpected no-break space`},
		{`{"a": @}`, `1:7 unexpected character '@'`},
		{"{\"a\": \"\xff\"}", `1:8 file is not valid UTF-8 here`},
		{"\xff\xfe{\x00}\x00", `1:1 file is UTF-16, not UTF-8`},
		{"{\u200b\"a\": 1}", `1:2 unexpected invisible character`},
		{"{\x00\n\x00", `1:1 file is UTF-16, not UTF-8`},
		{"\x00{\x00\n", `1:1 file is UTF-16, not UTF-8`},
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

// The text around a mistake is not shown, because it may be a secret.
func TestJSONSyntaxShowsNoText(t *testing.T) {
	for _, text := range []string{
		`{"env": {"K": "hunter2secret\x"}}`,
		`{"env": {"K": hunter2secrethunter2secret}}`,
		`{"env": {hunter2secrethunter2secret: 1}}`,
		`{"env": {"K": "hunter2secret}}`,
	} {
		_, err := NewSource([]byte(text)).Parse(JSON)
		if err == nil || strings.Contains(fmt.Sprintf("%+v", err), "hunter2") {
			t.Errorf("%s: %+v", text, err)
		}
	}
}
