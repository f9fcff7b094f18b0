package tracker

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// With AllLists the lists of a server are followed whatever its entry says, and its
// resources are not.
func TestAllLists(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		docs.SetList(catalog.Prompts, map[string]any{"name": "ask"})
		docs.SetList(catalog.Tools, map[string]any{"name": "dig"})
		w.opts.AllLists = true
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources, s.TrackPrompts = false, false }))
		w.pass(5 * time.Second)
		w.wantState("docs", event.Ready)
		st, _ := w.tracker.Snapshot().Server("docs")
		for k, want := range map[catalog.Kind]string{catalog.Resources: "file:///a.md", catalog.Prompts: "ask", catalog.Tools: "dig"} {
			if got := strings.Join(st.Lists[k].Keys(), " "); got != want {
				w.Errorf("%s: %q, want %q", k, got, want)
			}
		}
		if n := docs.Count("resources/read"); n != 0 || len(docs.Subscribed()) != 0 {
			w.Errorf("%d reads, subscribed to %q", n, docs.Subscribed())
		}
		docs.SetList(catalog.Prompts, map[string]any{"name": "ask"}, map[string]any{"name": "tell"})
		docs.NotifyListChanged(catalog.Prompts)
		docs.Set("file:///b.md", "two") // announces its list
		w.pass(5 * time.Second)
		if n := len(w.published(event.TypePromptsListChanged)); n != 1 {
			w.Errorf("%d changes of prompts", n)
		}
		if n := len(w.published(event.TypeResourcesListChanged)); n != 1 {
			w.Errorf("%d changes of resources", n)
		}
	})
}

func TestDoReachesTheLiveSession(t *testing.T) {
	inWorld(t, func(w *world, _ *sessiontest.Fake) {
		w.start(sessiontest.Entry("docs"))
		w.pass(time.Second)
		q := session.Request{Method: "tools/call", Params: map[string]json.RawMessage{"name": json.RawMessage(`"dig"`)}}
		if raw, err := w.tracker.Do(w.Context(), "docs", q); err != nil || !strings.Contains(string(raw), "dig") {
			w.Errorf("%s, %v", raw, err)
		}
		if _, err := w.tracker.Do(w.Context(), "none", q); err == nil {
			w.Error("an unknown server answers")
		}
	})
}
