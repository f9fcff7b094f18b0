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
