package termtext

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		s           string
		limit       int
		middle, end string
	}{
		{"file:///guide.md", 16, "file:///guide.md", "file:///guide.md"},
		{"file:///guide.md", 9, "file…e.md", "file:///…"},
		{"abcdef", 1, "…", "…"},
		{"abcdef", 0, "", ""},
		{"日本語テキスト", 8, "日…スト", "日本語…"}, // two columns each
		{"👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 5, "👩‍👩‍👧‍👦…👩‍👩‍👧‍👦", "👩‍👩‍👧‍👦👩‍👩‍👧‍👦…"},
	} {
		if got := Middle(c.s, c.limit); got != c.middle {
			t.Errorf("Middle(%q, %d) = %q, want %q", c.s, c.limit, got, c.middle)
		}
		if got := End(c.s, c.limit); got != c.end {
			t.Errorf("End(%q, %d) = %q, want %q", c.s, c.limit, got, c.end)
		}
	}
}

func TestWrap(t *testing.T) {
	got := Wrap("connect: the server's  process ended: https://example.com/a/long/path (stderr: x)", 20)
	want := []string{"connect: the", "server's process", "ended:", "https://example.com/", "a/long/path (stderr:", "x)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Wrap("", 10); got != nil {
		t.Errorf("%q", got)
	}
}

// A wide character does not fit beside the indent and what follows the space.
func TestFoldWide(t *testing.T) {
	if lines := Fold("日 a日", 4, 2); !slices.Equal(lines, []string{"日 ", "  a", "  日"}) {
		t.Errorf("%q", lines)
	}
}

// No result is wider than the limit, and wrapping loses only spaces.
func TestLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.SampledFrom([]rune("ab/ é日👩👧\u200d\ufe0f1"))).Draw(t, "text")
		limit := rapid.IntRange(2, 30).Draw(t, "limit")
		for _, cut := range []string{Middle(s, limit), End(s, limit)} {
			if Width(cut) > limit {
				t.Errorf("%q has %d columns, limit %d", cut, Width(cut), limit)
			}
		}
		lines := Wrap(s, limit)
		for _, line := range lines {
			if Width(line) > limit {
				t.Errorf("line %q has %d columns, limit %d", line, Width(line), limit)
			}
		}
		folded := Fold(s, limit, 2)
		for i, line := range folded {
			if Width(line) > limit {
				t.Errorf("folded line %q has %d columns, limit %d", line, Width(line), limit)
			}
			if i > 0 && limit >= 4 {
				folded[i] = line[2:]
			}
		}
		if got := strings.Join(folded, ""); got != s {
			t.Errorf("folding made %q of %q", got, s)
		}
		if got, want := strings.ReplaceAll(strings.Join(lines, ""), " ", ""), strings.Join(strings.Fields(s), ""); got != want {
			t.Errorf("%q became %q", want, got)
		}
	})
}
