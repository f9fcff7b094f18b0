package printable

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for _, c := range []struct {
		name, in string
		limit    int
		want     string
	}{
		{"plain", "docs/guide.md", 0, "docs/guide.md"},
		{"accents stay", "Grüße 東京 👍", 0, "Grüße 東京 👍"},
		{"title and clear screen", "\x1b]0;x\x07\x1b[2J", 0, `\x1b]0;x\x07\x1b[2J`},
		{"forged log line", "a\n level=ERROR\r\tx", 0, `a\n level=ERROR\r\tx`},
		{"C1 control", "\u009b31m", 0, `\u009b31m`},
		{"direction override", "\u202egpj.exe", 0, `\u202egpj.exe`},
		{"zero width and byte order mark", "a\u200bb\ufeff", 0, `a\u200bb\ufeff`},
		{"joined emoji stay", "👩\u200d👩\u200d👧 🏳️\u200d🌈 👩🏽\u200d💻", 0, "👩\u200d👩\u200d👧 🏳️\u200d🌈 👩🏽\u200d💻"},
		{"other joiners", "a\u200db 👩\u200d", 0, `a\u200db 👩\u200d`},
		{"two joiners", "👩\u200d\u200d👧", 0, `👩\u200d\u200d👧`},
		{"tag characters", "x\U000e0041", 0, `x\U000e0041`},
		{"broken bytes", "a\xffb", 0, `a\xffb`},
		{"delete", "a\x7f", 0, `a\x7f`},
		{"cut", "abcdef", 3, "abc…"},
		{"not cut", "abc", 3, "abc"},
		{"cut counts runes", "ääää", 3, "äää…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Line(c.in, c.limit); got != c.want {
				t.Errorf("Line(%q) = %s, want %s", c.in, got, c.want)
			}
		})
	}
}

func TestLinesKeepsBreaksAndTabs(t *testing.T) {
	if got, want := Lines("a\tb\r\n\x1b[1m"), "a\tb\n"+`\x1b[1m`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("\x1b[2J\u202e\u009b\xff\n", 5)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		got := Line(s, limit)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		for i, r := range got {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && (r != joiner || !joins(got, i)) {
				t.Fatalf("%q holds %U", got, r)
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add("\u009b\u202e\U000e0041plain ä \x7f")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		doc, err := json.Marshal(map[string]string{s: s})
		if err != nil {
			t.Skip()
		}
		got := JSON(doc)
		var back map[string]string
		if err := json.Unmarshal(got, &back); err != nil || back[s] != s {
			t.Fatalf("%s came back as %v, %v", got, back, err)
		}
		for _, r := range string(got) {
			if hidden(r) {
				t.Fatalf("%q holds %U", got, r)
			}
		}
	})
}
