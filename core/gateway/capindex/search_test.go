package capindex

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/textindex"
	"github.com/mcptrack/mcptrack/core/printable"
)

// search calls the tool and returns the keys that it finds, the best first.
func search(t testing.TB, x *Index, arguments string) (keys []string, total int) {
	t.Helper()
	raw, err := x.Search(t.Context(), json.RawMessage(arguments))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Content           []struct{ Type, Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.IsError || len(r.Content) != 1 || r.Content[0].Text != string(r.StructuredContent) {
		t.Fatalf("%s: %s, %v", arguments, raw, err)
	}
	var found struct {
		Total   int
		Results []Result
	}
	if err := json.Unmarshal(r.StructuredContent, &found); err != nil || found.Results == nil {
		t.Fatalf("%s: %s, %v", arguments, raw, err)
	}
	for _, hit := range found.Results {
		keys = append(keys, hit.Key)
	}
	return keys, found.Total
}

func TestSearch(t *testing.T) {
	x := newIndex(t, Options{Source: func() Capabilities { return sampleView(t) }})
	for arguments, want := range map[string]string{
		`{"query":"close"}`:                              "close_ticket",
		`{"query":"CLOSING tickets"}`:                    "close_ticket",
		`{"query":"reading notes","limit":1}`:            "read_note",
		`{"query":"write"}`:                              "writeNote",
		`{"query":"guide"}`:                              "file:///guide.md",
		`{"query":"gui"}`:                                "file:///guide.md", // a prefix
		`{"query":"lines"}`:                              "read_note",        // a parameter
		`{"query":"notes","kind":"prompts"}`:             "review",
		`{"query":"note","server":"tickets"}`:            "close_ticket",
		`{"query":"note","kind":"templates"}`:            "file:///notes/{name}.md",
		`{"query":"nothing of this"}`:                    "",
		`{"query":"the of and"}`:                         "",
		`{"query":"\u0000 \ud800 ' OR 1=1 --"}`:          "",
		`{"query":"note","server":"nope","limit":50}`:    "",
		`{"query":"markdown","server":null,"kind":null}`: "read_note file:///guide.md",
	} {
		if got, _ := search(t, x, arguments); strings.Join(got, " ") != want {
			if want != "read_note file:///guide.md" || len(got) != 1 {
				t.Errorf("%s: %q, want %q", arguments, got, want)
			}
		}
	}
	if got, total := search(t, x, `{"query":"note notes","limit":2}`); len(got) != 2 || total < 5 {
		t.Errorf("%q of %d", got, total)
	}
	for arguments, want := range map[string]string{
		``: "query", `{}`: "query", `[]`: "schema", `{"query":5}`: "schema", `{"query":" "}`: "query", `{"query":"a","x":1}`: "schema",
		`{"query":"a","kind":"servers"}`: "kind", `{"query":"a","limit":0}`: "limit", `{"query":"a","limit":51}`: "limit", `{"query":"a","limit":1.5}`: "schema",
		`{"query":"` + strings.Repeat("a", 1001) + `"}`: "longer",
	} {
		raw, err := x.Search(t.Context(), json.RawMessage(arguments))
		if err != nil || !strings.Contains(string(raw), `"isError":true`) || !strings.Contains(string(raw), want) || strings.Contains(string(raw), "Go struct") {
			t.Errorf("%.60s: %s, %v", arguments, raw, err)
		}
	}
	var tool struct {
		Name                      string
		InputSchema, OutputSchema map[string]any
	}
	if err := json.Unmarshal(SearchTool(), &tool); err != nil || tool.Name != SearchToolName || tool.InputSchema == nil || tool.OutputSchema == nil {
		t.Errorf("%+v, %v", tool, err)
	}
	if _, err := catalog.NewItem(catalog.Tools, SearchTool()); err != nil {
		t.Error(err)
	}
	if got, total := search(t, newIndex(t, Options{}), `{"query":"x"}`); len(got) != 0 || total != 0 {
		t.Errorf("found %q in nothing", got)
	}
}

// A word in a name ranks higher than a word in a description, and a rare word higher than a
// common word.
func TestRanking(t *testing.T) {
	tools := []string{`{"name":"alpha","description":"mentions beta once among many other words about this and that and more"}`,
		`{"name":"beta","description":"something"}`, `{"name":"gamma","description":"rare"}`}
	for i := range 20 {
		tools = append(tools, fmt.Sprintf(`{"name":"filler%d","description":"common"}`, i))
	}
	v := Capabilities{[]ServerCapabilities{{ID: "s", Lists: map[catalog.Kind]catalog.List{catalog.Tools: list(t, catalog.Tools, tools...)}}}}
	x := newIndex(t, Options{Source: func() Capabilities { return v }})
	if got, _ := search(t, x, `{"query":"beta"}`); !slices.Equal(got, []string{"beta", "alpha"}) {
		t.Errorf("%q", got)
	}
	if got, total := search(t, x, `{"query":"common rare","limit":1}`); !slices.Equal(got, []string{"gamma"}) || total != 21 {
		t.Errorf("%q of %d", got, total)
	}
}

// Search results have no hidden characters.
func TestSearchIsPrintable(t *testing.T) {
	v := Capabilities{[]ServerCapabilities{{ID: "s\u202e", Lists: map[catalog.Kind]catalog.List{catalog.Tools: list(t, catalog.Tools,
		`{"name":"note\u202e","title":"\u001b[31m","description":"a\u200bb <i> note"}`)}}}}
	x := newIndex(t, Options{Source: func() Capabilities { return v }})
	raw, err := x.Search(t.Context(), json.RawMessage(`{"query":"note"}`))
	if err != nil || string(printable.JSON(raw)) != string(raw) || !strings.Contains(string(raw), `"total":1`) {
		t.Errorf("%s, %v", raw, err)
	}
	if keys, _ := search(t, x, `{"query":"note"}`); len(keys) != 1 || keys[0] != "note\u202e" {
		t.Errorf("the key is not what it was: %q", keys)
	}
}

// Any text can be indexed, listed and searched.
func FuzzIndex(f *testing.F) {
	f.Add("read_note", "Reads the notes", "notes")
	f.Add("HTTPServerÄ", "\u202e\xff`` # <b>", "http")
	f.Add("日本語", "e\u0301", "本")
	f.Fuzz(func(t *testing.T, name, description, query string) {
		raw, err := json.Marshal(map[string]any{"name": "x" + name, "description": description, "title": query})
		if err != nil {
			return
		}
		it, err := catalog.NewItem(catalog.Tools, raw)
		if err != nil {
			return
		}
		v := Capabilities{[]ServerCapabilities{{ID: name, Lists: map[catalog.Kind]catalog.List{catalog.Tools: {it}}}}}
		x := newIndex(t, Options{Source: func() Capabilities { return v }})
		for _, doc := range Names() {
			if text := x.mustRead(t, doc).Text; printable.Lines(text) != text {
				t.Errorf("%s: %q", doc, text)
			}
		}
		var terms []string
		for word := range textindex.Words(query, true) {
			terms = append(terms, textindex.Stem(word))
		}
		args, _ := json.Marshal(map[string]string{"query": query})
		if strings.TrimSpace(query) == "" || len(args) > 900 {
			return
		}
		_, total := search(t, x, string(args))
		if want := slices.ContainsFunc(terms, func(t string) bool { return t != "" }); (total == 1) != want {
			t.Errorf("%q finds %d, terms %q", query, total, terms)
		}
	})
}

// BenchmarkGenerate creates a generation of 10,000 tools of 100 servers.
func BenchmarkGenerate(b *testing.B) {
	v := large(b, 100, 50, func(n int) string {
		return fmt.Sprintf("tool%d reads the notes of project %d and writes a report about customer%d", n, n%97, n%1013)
	})
	x := newIndex(b, Options{Source: func() Capabilities { return v }})
	for b.Loop() {
		x.Invalidate()
		x.mustRead(b, "stats")
	}
}
