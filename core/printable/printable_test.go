package printable

import (
	"encoding/json"
	"strings"
	"testing"
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

// What has no shape is hidden, unless it gives its neighbours theirs.
func TestHidden(t *testing.T) {
	t.Parallel()
	for _, r := range []rune{
		0x00ad, 0x034f, 0x061c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180e, 0x180f, 0x200b, 0x200c, 0x200d, 0x200f, 0x202e, 0x2060, 0x2064, 0x2065, 0x206f, 0x2800, 0x3164,
		0xfe00, 0xfe0e, 0xfe0f, 0xfeff, 0xffa0, 0xfff0, 0xfff8, 0x1bca0, 0x1d173, 0xe0000, 0xe0041, 0xe007f, 0xe0100, 0xe01ef, 0xe0fff,
	} {
		text := "a" + string(r) + "b"
		if Visible(text) != "ab" {
			t.Errorf("%U is seen", r)
		}
		doc, _ := json.Marshal(text)
		for _, out := range []string{Line(text, 0), Lines(text), string(JSON(doc))} {
			if strings.ContainsRune(out, r) {
				t.Errorf("%U stays in %q", r, out)
			}
		}
	}
	flag := func(region string) string {
		return "\U0001f3f4" + strings.Map(func(r rune) rune { return 0xe0000 + r }, region+"\x7f")
	}
	for _, text := range []string{
		"👩\u200d👩\u200d👧\u200d👦", "🏳\ufe0f\u200d🌈", "👩🏽\u200d💻", "❤\ufe0f\u200d🔥", "🙂\u200d↔\ufe0f", "⚠\ufe0f ☎\ufe0e ©\ufe0f 1\ufe0f\u20e3", // emoji
		flag("gbeng"), "x" + flag("gbsct") + flag("gbwls"),
		"می\u200cخواهم", "क्\u200dष", "ශ්\u200dරී", "ക്\u200cഷ", // words
		"Grüße 東京 한글 ภาษา עברית", "a\tb\r\nc\n",
	} {
		if got := Visible(text); got != text {
			t.Errorf("%q is seen as %q", text, got)
		}
		if line := strings.TrimRight(strings.Split(text, "\t")[0], "\r\n"); Line(line, 0) != line {
			t.Errorf("%q becomes %q", line, Line(line, 0))
		}
	}
	for text, want := range map[string]string{
		"می\u200c\u200cخ": "میخ", "می\u200c\u200d\u200cخ": "میخ", "می\u200c خ": "می خ", "a\u200cb": "ab", "👩\u200d\u200d👧": "👩👧", "👩\u200d": "👩", "\u200d👧": "👧",
		"⚠\ufe0f\ufe0f\ufe0e": "⚠\ufe0f", "a\ufe0f": "a", "1\ufe0f": "1", "葛\U000e0100": "葛", flag("usca"): "\U0001f3f4", "x" + flag("gbeng")[4:]: "x", flag("gbeng") + "\U000e0041": flag("gbeng"),
		"a\x00\x1b[2J\rb\xff": "a[2Jb", "ក\u17b4\u200cក": "កក",
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q is seen as %q, want %q", text, got, want)
		}
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
			if hidden(r) && !shapes(got, i) {
				t.Fatalf("%q holds %U", got, r)
			}
		}
		visible := Visible(s)
		if again := Visible(visible); !utf8.ValidString(visible) || again != visible {
			t.Fatalf("%q is seen as %q, and that as %q", s, visible, again)
		}
		for i, r := range visible {
			if hidden(r) && !strings.ContainsRune("\n\t\r", r) && !shapes(visible, i) {
				t.Fatalf("%q holds %U", visible, r)
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
		for i, r := range string(got) {
			if hidden(r) && !shapes(string(got), i) {
				t.Fatalf("%q holds %U", got, r)
			}
		}
	})
}
