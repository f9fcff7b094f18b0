package document

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"

	"github.com/mcptrack/mcptrack/core/printable"
)

// written is a JSON document as YAML.
func written(tb testing.TB, doc string) string {
	tb.Helper()
	var out strings.Builder
	if err := writeYAML(&out, []byte(doc)); err != nil {
		tb.Fatalf("%s: %v", doc, err)
	}
	return out.String()
}

// TestYAMLOfHiddenCharacters: text of a server can make no document invalid, not even by
// characters beyond U+FFFF, which JSON escapes as two halves.
func TestYAMLOfHiddenCharacters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"flag \U000e0067 x": `"flag \U000E0067 x"`,
		"\U0001f3f4":        `"\U0001F3F4"`,
		"東京":                "東京",
		"\u202eevil":        `"\u202eevil"`,
		"a\nb":              "|-\n  a\n  b",
		"a\n\u200b":         `"a\n\u200b"`,
		"\ufffe \x00":       `"\uFFFE \0"`,
		"null":              `"null"`,
		"012":               `"012"`,
		"1e3":               `"1e3"`,
		"yes":               `"yes"`, // true in YAML 1.1
		"~":                 `"~"`,
		"2026-11-22":        `"2026-11-22"`,
		"- a":               `'- a'`,
		"":                  `""`,
		" x":                `' x'`,
		"\\ud800":           `\ud800`,
	} {
		doc, err := printable.Marshal(map[string]string{"a": in})
		if err != nil {
			t.Fatal(err)
		}
		if got := written(t, string(doc)); got != "a: "+want+"\n" {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestYAMLKeepsNumbers: also those that no float64 holds.
func TestYAMLKeepsNumbers(t *testing.T) {
	t.Parallel()
	got := written(t, `{"z":9007199254740993,"a":[1.50,-0,1E400,123456789012345678901234567890,true,null,{},[]]}`)
	want := "z: 9007199254740993\na:\n- 1.50\n- -0\n- 1E400\n- 123456789012345678901234567890\n- true\n- null\n- {}\n- []\n"
	if got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{"\U000e0067", "\u202e\u0085\u2028", "- # : | > \t\r\n ", "\xff\x00", "a: b\n  c", "<<", "=", "0x1f", "!!str x", "&a *a"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		key, value = strings.ToValidUTF8(key, "?"), strings.ToValidUTF8(value, "?")
		want := map[string]any{key: []any{value, map[string]any{"x": value}}}
		doc, err := printable.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		text := written(t, string(doc))
		if shown := printable.Lines(text); shown != text {
			t.Fatalf("hidden characters in %q", text)
		}
		var got map[string]any
		if err := yaml.Load([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%s\n%s", text, d)
		}
	})
}

// TestYAMLOfDeepDocuments: the deepest that the decoder of JSON accepts.
func TestYAMLOfDeepDocuments(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	if !json.Valid([]byte(deep)) {
		t.Fatal("not JSON")
	}
	if got := written(t, deep); !bytes.Contains([]byte(got), []byte("[]")) {
		t.Errorf("%.100s", got)
	}
}
