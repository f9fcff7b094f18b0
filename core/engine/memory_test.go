package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A run that ends immediately after its first read of a resource remembers the content: a change
// while nothing runs is published by the next run.
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

// The same for lists.
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

// serverEvents returns the ids of the server.event events in the log.
func (r *run) serverEvents() (ids []string) {
	r.Helper()
	b, err := r.events.Bounds(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for e, err := range r.events.Read(r.Context(), b.First) {
		if err != nil {
			r.Fatal(err)
		}
		if ev, err := e.Event(); err == nil && ev.Type() == event.TypeServerEvent {
			ids = append(ids, ev.Payload.(event.ServerEvent).EventID)
		}
	}
	return ids
}

// Events of a server that happened while nothing ran are published by the next run, each once.
func TestEventsOfServersWhileDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "docs")
	const name = "build\ndone" // a hostile name
	feed := sessiontest.NewFeed(name)
	docs := w.servers["docs"]
	docs.Capabilities["extensions"] = map[string]any{mcp.ExtensionEvents: map[string]any{}}
	docs.Events = feed.Handle
	cfg := w.config()
	cfg.Servers[0].Events = config.Events{All: true}
	opts := local()
	var want []string
	for round := range 3 {
		r := w.engine(opts, engine.Options{}, cfg)
		eventually(t, fmt.Sprintf("a stream is open in round %d", round), time.Minute, func() bool { return feed.Streams() == 1 })
		feed.Emit(name, map[string]any{"n": round})
		want = append(want, fmt.Sprint("e", len(want)+1))
		eventually(t, fmt.Sprintf("the events are published in round %d", round), time.Minute, func() bool { return len(r.serverEvents()) >= len(want) })
		if got := r.serverEvents(); !slices.Equal(got, want) {
			t.Fatalf("round %d: published %q, want %q", round, got, want)
		}
		r.stop()
		feed.Emit(name, map[string]any{"down": round})
		want = append(want, fmt.Sprint("e", len(want)+1))
	}
}
