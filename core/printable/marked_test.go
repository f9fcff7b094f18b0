package printable_test

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/printable"
)

func TestMarked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "",
		"a\n\tb c é 漢　字":           "a\n\tb c é 漢　字",
		"a\r\n":                    "a<U+000D>\n",
		"a\u200bb\u202e\x1b[31m":   "a<U+200B>b<U+202E><U+001B>[31m",
		"\U000e0041\ue000\u0085":   "<U+E0041><U+E000><U+0085>",
		"👩\u200d💻 ❤\ufe0f":         "👩<U+200D>💻 ❤<U+FE0F>",
		"a\u00a0b":                 "a<U+00A0>b",
		"<U+200B> <0xff> <b> a<U+": "<U+003C>U+200B> <U+003C>0xff> <b> a<U+003C>U+",
		"\xff":                     "<0xff>",
	} {
		if got := printable.Marked(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestHidden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		at   int
		want bool
	}{
		{"ab", 1, false}, {"a\n", 1, true}, {"a\u200b", 1, true}, {"👩\u200d💻", 4, false}, {"a\u200d💻", 1, true},
		{"❤\ufe0f", 3, false}, {"❤\ufe0f\ufe0f", 6, true}, {"\x80", 0, false},
	} {
		if got := printable.Hidden(c.text, c.at); got != c.want {
			t.Errorf("%q at %d: %t", c.text, c.at, got)
		}
	}
}
