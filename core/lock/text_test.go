package lock

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/textdiff"
)

func TestName(t *testing.T) {
	for _, section := range sections() {
		want := map[Section]string{SectionTools: "tool/k", SectionPrompts: "prompt/k", SectionSkills: "skill/k", SectionTemplates: "template/k", SectionResources: "resource/k", SectionContents: "content/k"}[section]
		if want == "" {
			want = string(section)
		}
		if got := Name(section, "k"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDiff(t *testing.T) {
	const long = "Reads a file of the project and returns its text. Directories are refused. Large files are cut."
	for name, c := range map[string]struct{ old, new, want string }{
		"a value":                  {`{"name":"k","annotations":{"readOnlyHint":true}}`, `{"annotations":{"readOnlyHint":false},"name":"k"}`, "-annotations/readOnlyHint: true\n+annotations/readOnlyHint: false\n name: \"k\"\n"},
		"order alone":              {`{"a":1,"b":[{}]}`, `{"b":[{}],"a":1}`, ""},
		"a type":                   {`{"a":true,"b":[]}`, `{"a":"true","b":[null,1e2]}`, "-a: true\n-b: []\n+a: \"true\"\n+b[]: null\n+b[]: 1e2\n"},
		"a sentence of many":       {`{"d":"` + long + `"}`, `{"d":"` + strings.Replace(long, "refused", "listed", 1) + `"}`, " d: \"Reads a file of the project and returns its text. \n-  | Directories are refused. \n+  | Directories are listed. \n   | Large files are cut.\"\n"},
		"a hidden character":       {`{"d":"a b"}`, "{\"d\":\"a\\u200b b\"}", "-d: \"a b\"\n+d: \"a<U+200B> b\"\n"},
		"a line that claims":       {`{"d":"a"}`, `{"d":"a\nname: \"b\"\r"}`, "-d: \"a\"\n+d: \"a\n+  | name: \"b\"<U+000D>\"\n"},
		"a member that claims":     {`{}`, `{"a\nb":1}`, "-{}\n+a\\nb: 1\n"},
		"added":                    {``, `"Be kind."`, "+\"Be kind.\"\n"},
		"removed":                  {`{"a":1}`, ``, "-a: 1\n"},
		"what is not JSON":         {`{"a":1}`, "{\"a\n\x1b", "-a: 1\n+{\"a\\n<U+001B>\n"},
		"too large to be compared": {`{}`, `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, ""},
	} {
		raw := func(s string) json.RawMessage {
			if s == "" {
				return nil
			}
			return json.RawMessage(s)
		}
		d := Drift{Section: SectionTools, Key: "k\x1b", Old: Item{Definition: raw(c.old)}, New: Item{Definition: raw(c.new)}}
		_, got, _ := strings.Cut(d.Diff(), " @@\n")
		if got != c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, d.Diff(), c.want)
		}
		if strings.ContainsAny(d.Diff(), "\x1b\r") {
			t.Errorf("%s: %q has a control character", name, d.Diff())
		}
	}
}

func TestParseName(t *testing.T) {
	for name, want := range map[string]string{
		"tool/draw": "tools draw", "prompt/p": "prompts p", "template/note://{x}": "templates note://{x}", "resource/resource://a": "resources resource://a",
		"content/tool://x": "contents tool://x", "tool/a:b/c": "tools a:b/c", "tool/:a": "tools :a", "tool///a": "tools //a",
		"instructions": "instructions ", "launch": "launch ", "capabilities": "capabilities ",
		"resource://a": "", "tool://a": "", "tool:draw": "", "tool": "", "tool:": "", "tool/": "", "tools/draw": "", "tools:draw": "", "instructions:a": "", "file:///a": "", "": "",
	} {
		section, key, ok := ParseName(name)
		if got := string(section) + " " + key; ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %t, want %q", name, got, ok, want)
		}
	}
	for _, section := range sections() {
		got, _, ok := ParseName(Name(section, "//k"))
		if got != section || !ok {
			t.Errorf("%q is parsed as %q, %t", Name(section, "//k"), got, ok)
		}
	}
}

// TestUnshown: what a difference does not show is counted.
func TestUnshown(t *testing.T) {
	t.Parallel()
	content := func(data string) Item { return Item{Definition: Content("note:a", "", []byte(data), true)} }
	tool := func(n int) Item { return Item{Definition: []byte(`{"name":"` + strings.Repeat("x", n) + `"}`)} }
	for _, c := range []struct {
		d    Drift
		want string
	}{
		{Drift{Section: SectionContents, Key: "note:a", Old: content("a"), New: content(strings.Repeat("w ", 33_000) + "EVILTAIL")}, "cut: 472 bytes are not shown"},
		{Drift{Section: SectionContents, Key: "note:a", Old: content("a"), New: content("\xff\x00")}, "not text: 2 bytes are not shown"},
		{Drift{Section: SectionContents, Key: "note:a", Old: content("a"), New: content(strings.Repeat("w ", MaxContent/2))}, ""},
		{Drift{Section: SectionContents, Key: "note:a", Old: content(strings.Repeat("w ", MaxContent)), New: content("")}, ""},
		{Drift{Section: SectionContents, Key: "note:a", Old: content(strings.Repeat("w ", MaxContent))}, ""},
		{Drift{Section: SectionTools, Key: "x", Old: tool(1), New: tool(textdiff.MaxText)}, "too large to compare: the definition is not shown"},
		{Drift{Section: SectionTools, Key: "x", Old: tool(1), New: tool(textdiff.MaxText - 100)}, ""},
	} {
		if got := c.d.Unshown(); got != c.want || got != "" && !slices.Contains((Change{Drift: c.d}).Notes(), got) {
			t.Errorf("%.100s: %q, want %q", c.d.New.Definition, got, c.want)
		}
	}
}
