package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
)

// versionsOf returns the versions of an item of the server docs, oldest first: its definition, or
// "removed" or "not stored", and the classes of the change.
func versionsOf(t *testing.T, log journal.Log, item string) (out []string) {
	t.Helper()
	it, _ := history.ParseItem(item)
	states, err := log.States(t.Context(), "docs")
	if err != nil {
		t.Fatal(err)
	}
	versions, err := history.Log{Select: log.Select, Contents: log.Contents()}.Definition(t.Context(), "docs", it, history.Current(states, "docs", it), 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		text, ok, err := log.Contents().Get(t.Context(), v.Digest)
		switch {
		case err != nil:
			t.Fatal(err)
		case v.Removed:
			text = "removed"
		case !ok:
			text = "not stored"
		}
		parts := []string{text}
		for _, c := range v.Classes {
			parts = append(parts, c.Name)
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

// The log has both definitions of a change, whether it happened while this process ran or before, and
// the instructions of every connection. Those that an older mcptrack did not store are stored when the
// server connects.
func TestDefinitionsOfChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "docs")
	docs := w.servers["docs"]
	tool := func(description string) map[string]any {
		return map[string]any{"name": "search", "description": description}
	}
	search := func(description string) string { return `{"description":"` + description + `","name":"search"}` }
	docs.Instructions = "Be kind."
	stays, err := catalog.NewItem(catalog.Prompts, []byte(`{"name":"stays"}`))
	if err != nil {
		t.Fatal(err)
	}
	docs.SetList(catalog.Prompts, map[string]any{"name": "stays"})
	docs.SetList(catalog.Tools, tool("Finds."))
	at := local()
	if err := at.memory.RememberList(journal.ListName{ServerID: "docs", Kind: catalog.Prompts}, catalog.List{stays}); err != nil {
		t.Fatal(err)
	}
	until := func(item string, want ...string) {
		t.Helper()
		eventually(t, item+" has the versions "+strings.Join(want, ", "), time.Minute, func() bool {
			return strings.Join(versionsOf(t, at.memory, item), ", ") == strings.Join(want, ", ")
		})
	}
	until("prompt/stays", "not stored")
	first := w.start(at)
	until("tool/search", search("Finds."))
	until("prompt/stays", `{"name":"stays"}`)
	until("instructions", `"Be kind."`)
	docs.SetList(catalog.Tools, tool("Finds notes."))
	docs.NotifyListChanged(catalog.Tools)
	until("tool/search", search("Finds."), search("Finds notes.")+" wording")
	first.stop()
	docs.SetList(catalog.Tools)
	docs.Instructions = "Be quick."
	second := w.start(at)
	until("tool/search", search("Finds."), search("Finds notes.")+" wording", "removed removed")
	until("instructions", `"Be kind."`, `"Be quick." instructions`)
	second.stop()
	docs.Instructions = ""
	w.start(at)
	until("instructions", `"Be kind."`, `"Be quick." instructions`, "removed instructions")
}
