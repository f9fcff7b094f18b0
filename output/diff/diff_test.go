package diff

import (
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/textdiff"
)

func TestColour(t *testing.T) {
	got := Colour("@@ -1 +1 @@\n-a\x1b[2J\n+b\n c\n")
	want := "\x1b[36m@@ -1 +1 @@\x1b[0m\n\x1b[31m-a\\x1b[2J\x1b[0m\n\x1b[32m+b\x1b[0m\n c\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     int
	}{
		{"a\n", "a\n", 0},
		{"", "a\nb\n", 2},
		{"a\nb\nc\n", "", 3},
		{"a\nb\nc\nd\n", "a\nB\nc\nD\nE\n", 3},
		{"--- a\n", "+++ b\n", 1},
		{"a", "b", 1},
		{strings.Repeat("a", textdiff.MaxText+1), "b", 0},
	} {
		if got := Lines(c.from, c.to); got != c.want {
			t.Errorf("from %.20q to %.20q: %d, want %d", c.from, c.to, got, c.want)
		}
	}
}
