package vault

import "testing"

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		runes int
		want  string
	}{
		{" a\n\tb\u2028c ", 10, "a b c"},
		{"a\u3164b\u034f\ufe0f\u2800\u200b\x00c", 10, "abc"},
		{"a \u3164 b", 10, "a b"},
		{"👩\u200d💻 ⚠\ufe0f", 10, "👩\u200d💻 ⚠\ufe0f"},
		{"üü üü", 4, "üü ü"},
		{"üü üü", 3, "üü"},
		{"\u3164", 3, ""},
	} {
		if got := shorten(c.text, c.runes); got != c.want {
			t.Errorf("%d of %q is %q, want %q", c.runes, c.text, got, c.want)
		}
	}
}
