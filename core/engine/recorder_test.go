package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// A server may echo a secret that it was given. Such a text is not stored beside the log, where
// other people may read it.
func TestTextsWithSecretsAreNotStored(t *testing.T) {
	j := journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20})
	srv := config.Server{ID: "docs", Secrets: []config.Secret{config.NewSecret("v4riable-value")}, Headers: map[string]config.Secret{"Authorization": config.NewSecret("Bearer h34der-value")}}
	srv.Env = map[string]config.Secret{"API_TOKEN": config.NewSecret("3nvironment-value"), "MODE": config.NewSecret("production")}
	srv.Args = []string{"--token=4rgument-value"}
	srv.URL = config.NewSecret("https://me:passw0rd-value@docs.example/?token=qu3ry-value&page=chapter-1")
	x := &texts{contents: j.Contents(), secrets: map[string][]string{}}
	x.apply(&config.Config{Servers: []config.Server{srv}})
	x.apply(&config.Config{}) // the last events of a removed server may not have been recorded yet
	for text, stored := range map[string]bool{
		"plain": true, "for production": true, "of chapter-1": true,
		"a v4riable-value": false, "h34der-value.": false, "(3nvironment-value)": false, "x passw0rd-value": false, "qu3ry-value": false, "is 4rgument-value": false,
	} {
		before, after := catalog.Digest{byte(len(text))}, catalog.Digest{0, byte(len(text))}
		x.putEvent(&event.Event{ServerID: "docs", Payload: event.ResourceUpdated{Digest: after, Text: &text, PreviousDigest: before, PreviousText: &text}})
		if err := j.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, d := range []catalog.Digest{before, after} {
			if _, ok, err := j.Contents().Get(t.Context(), d); ok != stored || err != nil {
				t.Errorf("%q: stored %t, %v", text, ok, err)
			}
		}
	}
}

// Definitions are stored with their secrets redacted, and a large list does not displace everything else.
func TestDefinitionsThatAreNotStored(t *testing.T) {
	j := journal.NewMemory(journal.MemoryOptions{KeepContent: 64 << 20})
	x := &texts{contents: j.Contents(), secrets: map[string][]string{}}
	srv := config.Server{ID: "docs", OAuth: config.OAuth{ClientSecret: config.NewSecret(`0auth"value`)}}
	srv.Args = []string{"--token=4rgument-value"}
	srv.Env = map[string]config.Secret{"DATABASE_URL": config.NewSecret("postgres://me:passw0rd-value@db.example/docs"), "API_KEY": config.NewSecret("v4riable-value and-more")}
	x.apply(&config.Config{Servers: []config.Server{srv}})
	item := func(name, description string) catalog.Item {
		it, err := catalog.NewItem(catalog.Tools, fmt.Appendf(nil, `{"name":%q,"description":%q}`, name, description))
		if err != nil {
			t.Fatal(err)
		}
		return it
	}
	large := strings.Repeat("x", maxDefinitions/3)
	list := catalog.NewList([]catalog.Item{item("a", "plain"), item("b", `Uses 4rgument-value, 0auth"value, passw0rd-value, v4riable-value and-more, v4riable-value.`), item("c", large), item("d", large), item("e", large), item("f", "after")})
	x.putEvent(&event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Tools, Added: list.Keys(), Items: &list}})
	definition, digest := catalog.Text("Use v4riable-value.")
	x.putEvent(&event.Event{ServerID: "docs", Payload: event.ServerState{State: event.Ready, Instructions: definition, InstructionsDigest: digest}})
	stored := func(key string) string {
		item, _ := list.Get(key)
		return string(item.Raw)
	}
	want := map[string]string{"a": stored("a"), "c": stored("c"), "d": stored("d"), "instructions": `"Use [redacted]."`,
		"b": `{"name":"b","description":"Uses [redacted], [redacted], [redacted], [redacted], [redacted]."}`}
	for _, it := range append(list, catalog.Item{Key: "instructions", Digest: digest}) {
		if got, ok, err := j.Contents().Get(t.Context(), it.Digest); got != want[it.Key] || ok != (got != "") || err != nil {
			t.Errorf("%s: stored %t %.300q, %v", it.Key, ok, got, err)
		}
	}
}

// BenchmarkPutList measures what storing the definitions of 1,000 tools adds to the time in which a
// server connects.
func BenchmarkPutList(b *testing.B) {
	var items []catalog.Item
	for i := range 1000 {
		it, err := catalog.NewItem(catalog.Tools, fmt.Appendf(nil, `{"name":"tool%d","description":%q,"inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`, i, strings.Repeat("Reads a file. ", 30)))
		if err != nil {
			b.Fatal(err)
		}
		items = append(items, it)
	}
	list := catalog.NewList(items)
	keys := list.Keys()
	b.ReportAllocs()
	for b.Loop() {
		j := journal.NewMemory(journal.MemoryOptions{KeepContent: 64 << 20})
		x := &texts{contents: j.Contents(), secrets: map[string][]string{"docs": {"one-secret", "another-secret"}}}
		x.putList("docs", list, keys)
	}
}
