package engine_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// A run that ends right after it has read a resource for the first time remembers the
// content: a change while nothing runs is published by the next run.
func TestChangesOfContentWhileDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "docs")
	opts := local()
	first := w.start(opts)
	first.knows()
	first.stop()
	w.servers["docs"].SetQuietly("file:///a.md", "two")
	second := w.start(opts)
	want := []string{"docs resource.updated file:///a.md resync"}
	eventually(t, "the change is published", time.Minute, func() bool { return len(second.log()) > 0 })
	if got := second.log(); !slices.Equal(got, want) {
		t.Errorf("published %q, want %q", got, want)
	}
}

// The same of lists.
func TestChangesOfListsWhileDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "docs")
	docs := w.servers["docs"]
	tool := func(name, description string) map[string]any {
		return map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}}
	}
	docs.SetList(catalog.Tools, tool("gone", ""), tool("stays", ""), tool("changes", "before"))
	docs.SetList(catalog.Prompts)
	opts := local()
	first := w.start(opts)
	first.knows()
	first.stop()
	docs.SetList(catalog.Tools, tool("new", ""), tool("stays", ""), tool("changes", "after"))
	docs.SetList(catalog.Prompts, map[string]any{"name": "first"})
	docs.Remove("file:///a.md")
	docs.SetQuietly("file:///c.md", "one")
	second := w.start(opts)
	want := []string{
		"docs prompts +[first] -[] ~[] resync",
		"docs resource.added file:///c.md resync",
		"docs resource.removed file:///a.md resync",
		"docs resources +[file:///c.md] -[file:///a.md] ~[] resync",
		"docs tools +[new] -[gone] ~[changes] resync",
	}
	eventually(t, "the changes are published", time.Minute, func() bool { return len(second.log()) >= len(want) })
	got := second.log()
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("published %q\nwant %q", got, want)
	}
	second.knows()
	second.stop()
	third := w.start(opts)
	third.knows()
	if got := third.log(); len(got) != len(want) {
		t.Errorf("published again: %q", got)
	}
}
