package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// serverEvents are the ids of the events of servers in the log.
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

// Events of a server that happened while nothing ran are published by the next run, each
// once.
func TestEventsOfServersWhileDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "docs")
	const name = "build\ndone" // as hostile as it may be
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
