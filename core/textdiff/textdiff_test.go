package textdiff

import (
	"strings"
	"testing"
)

func TestUnified(t *testing.T) {
	got := Unified("file:///a\x1b", "one\ntwo\n", "one\n2\n")
	want := "--- file:///a\\x1b\n+++ file:///a\\x1b\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if Unified("a", "same", "same") != "" || Unified("a", strings.Repeat("x", MaxText+1), "") != "" {
		t.Error("a diff of equal or huge texts")
	}
}

func TestCounts(t *testing.T) {
	for _, test := range []struct {
		from, to       string
		added, removed int
	}{
		{"a\nb\nc\n", "a\n+x\n-y\nc\n", 2, 1},
		{"", "--- a\n+++ b\n", 2, 0},
		{"one", "", 0, 1},
		{"same", "same", 0, 0},
	} {
		if added, removed := Counts(test.from, test.to); added != test.added || removed != test.removed {
			t.Errorf("%q, %q: +%d -%d", test.from, test.to, added, removed)
		}
	}
}
