package tracker

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A changed read mode takes effect: from none to digest, the content is read and published; from
// digest to none, it is no longer read.
func TestReadModeChanges(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		none := func(s *config.Server) { s.Read = config.ReadNone }
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs", none))
		w.pass(3 * time.Second)
		w.apply(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		w.wantState("docs", event.Ready)
		docs.Set("file:///a.md", "two")
		w.pass(time.Second)
		w.wantUpdates("file:///a.md notify")
		if u := w.published(event.TypeResourceUpdated)[0].Payload.(event.ResourceUpdated); u.Digest.IsZero() || u.Changed == nil || !*u.Changed {
			w.Errorf("the content was not read: %+v", u)
		}
		w.apply(sessiontest.Entry("docs", none))
		w.pass(3 * time.Second)
		reads := docs.Count("resources/read")
		w.forget()
		docs.Set("file:///a.md", "three")
		w.pass(3 * time.Second)
		w.wantUpdates("file:///a.md notify")
		if n := docs.Count("resources/read") - reads; n != 0 {
			w.Errorf("%d reads after reading was switched off", n)
		}
	})
}

// A changed timeout takes effect on the current session, even while it is being dialled.
func TestRequestTimeoutChanges(t *testing.T) {
	within := func(d time.Duration) config.Server {
		return sessiontest.Entry("docs", func(s *config.Server) { s.RequestTimeout = d })
	}
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		docs.Fail(sessiontest.Fault{Method: "initialize", Delay: 5 * time.Second, Times: 1})
		w.start(within(time.Minute))
		w.pass(time.Second)
		for _, d := range []time.Duration{20 * time.Second, 2 * time.Second, time.Hour} {
			w.apply(within(d))
			w.pass(10 * time.Second)
			w.wantState("docs", event.Ready)
			start := time.Now()
			_, err := w.tracker.Client("docs").CallTool(w.Context(), "slow", nil)
			if took := time.Since(start); err == nil || took != d {
				w.Errorf("%v after %s, want %s", err, took, d)
			}
		}
	})
}

// A changed filter interrupts the listen of a modern server over stdio for a moment; a change
// during it is one event. A legacy server is not interrupted.
func TestChangeDuringAFilterSwap(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.TrackTools = false }))
		if docs.Modern {
			synctest.Wait()
			for range 200 {
				if docs.Listens() == 0 {
					break
				}
				w.pass(time.Millisecond)
			}
			if docs.Listens() != 0 {
				w.Fatal("the listen was never interrupted: this test tests nothing")
			}
		}
		docs.Set("file:///a.md", "two") // there is no listen now
		w.pass(4 * time.Second)
		if got := w.updates(); len(got) != 1 || !strings.HasPrefix(got[0], "file:///a.md ") {
			w.Fatalf("updates %q, want one of a.md; events:\n%s", got, w.log())
		}
		docs.Set("file:///b.md", "two")
		w.pass(time.Second)
		if got := w.updates(); len(got) != 2 || got[1] != "file:///b.md notify" {
			w.Errorf("updates %q, want one more of b.md", got)
		}
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
	})
}

// Include and exclude change what is followed, on the same session, without interrupting the rest.
func TestSelectionChanges(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.Exclude = []string{"file:///a.md"} }))
		w.pass(time.Second)
		docs.Set("file:///a.md", "two")
		docs.Set("file:///b.md", "two")
		w.pass(3 * time.Second)
		w.wantUpdates("file:///b.md notify")
		if got := docs.Subscribed(); len(got) != 1 {
			w.Errorf("subscribed to %q", got)
		}
		w.apply(sessiontest.Entry("docs"))
		w.pass(time.Second)
		docs.Set("file:///a.md", "three")
		w.pass(3 * time.Second)
		w.wantUpdates("file:///b.md notify", "file:///a.md notify")
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
	})
}

// A server without resources is unsupported only while nothing else of it is tracked. There is one
// warning once nothing of it is followed.
func TestUnsupportedOnlyWhileWanted(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Capabilities = map[string]any{"tools": map[string]any{"listChanged": true}}
		off := func(s *config.Server) { s.TrackResources = false }
		alone := func(s *config.Server) { s.TrackTools, s.TrackPrompts = false, false }
		w.start(sessiontest.Entry("docs", off))
		w.pass(time.Second)
		w.wantState("docs", event.Ready)
		if n := len(w.logs.warnings()); n != 0 {
			w.Errorf("warned %q", w.logs.warnings())
		}
		w.apply(sessiontest.Entry("docs"))
		w.pass(time.Second)
		w.wantState("docs", event.Ready)
		if n := len(w.logs.warnings()); n != 0 {
			w.Errorf("warned %q", w.logs.warnings())
		}
		w.apply(sessiontest.Entry("docs", alone))
		w.pass(time.Second)
		w.wantState("docs", event.Unsupported)
		if n := len(w.logs.warnings()); n != 1 {
			w.Errorf("warnings %q, want one", w.logs.warnings())
		}
		w.apply(sessiontest.Entry("docs", off))
		w.pass(time.Second)
		w.wantState("docs", event.Ready)
	})
}

// Settled considers the last applied config, even immediately after Apply.
func TestSettledAfterAnotherConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.Serve("one", session.EraLegacy)
		w.Serve("two", session.EraModern)
		w.start(sessiontest.Entry("one"))
		if _, err := w.tracker.Settled(t.Context()); err != nil {
			w.Fatal(err)
		}
		w.apply(sessiontest.Entry("one"), sessiontest.Entry("two"))
		snap, err := w.tracker.Settled(t.Context())
		if err != nil {
			w.Fatal(err)
		}
		if st, _ := snap.Server("two"); st.State != event.Ready {
			w.Errorf("the added server is %q", st.State)
		}
		w.stopped()
		w.apply(sessiontest.Entry("one"))
		snap, _ = w.tracker.Settled(t.Context()) // after the end it does not block
		if st, _ := snap.Server("one"); st.State != event.Stopping {
			w.Errorf("after the end a server is %q", st.State)
		}
	})
}

// Of many consecutive configs the last one counts, and servers that are in all of them are not
// interrupted.
func TestManyConfigsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		for _, id := range []string{"keep", "flap"} {
			w.Serve(id, session.EraLegacy).SetQuietly("file:///a.md", "one")
		}
		w.start(sessiontest.Entry("keep"))
		w.pass(time.Second)
		for i := range 41 {
			if i%2 == 0 {
				w.apply(sessiontest.Entry("keep"), sessiontest.Entry("flap"))
			} else {
				w.apply(sessiontest.Entry("keep"))
			}
			w.pass(time.Duration(i%7) * time.Millisecond)
		}
		w.pass(5 * time.Second)
		w.wantState("flap", event.Ready)
		if n := len(w.Dialled("keep")); n != 1 {
			w.Errorf("the unchanged server was dialled %d times", n)
		}
		w.forget()
		w.Server("flap").Set("file:///a.md", "two")
		w.pass(time.Second)
		w.wantUpdates("file:///a.md notify")
	})
}

// Nothing is published about a removed server from its removal on, however much it announces.
func TestRemovedServerIsSilent(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Method: "resources/read", Delay: 200 * time.Millisecond})
		docs.Set("file:///a.md", "two") // the event waits for its read
		w.pass(100 * time.Millisecond)
		w.apply()
		for range 20 {
			docs.NotifyUpdated("file:///a.md")
			w.pass(250 * time.Millisecond)
		}
		w.wantUpdates()
		if got := docs.Subscribed(); len(got) != 0 {
			w.Errorf("subscribed to %q", got)
		}
		if n := len(w.tracker.Snapshot().Servers); n != 0 {
			w.Errorf("%d servers are known", n)
		}
		if states := w.published(event.TypeServerState); len(states) != 1 || states[0].Payload.(event.ServerState).Reason != "removed" {
			w.Errorf("want one state, Stopping because it is removed:\n%s", w.log())
		}
	})
}

// A rejection for missing credentials is a state of its own. The server is retried rarely, but
// immediately when the entry changes.
func TestNeedsAuth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.Serve("docs", session.EraLegacy)
		w.SetDown("docs", session.ErrAuth)
		w.start(sessiontest.Entry("docs"))
		w.pass(2 * time.Minute)
		w.wantState("docs", event.NeedsAuth)
		if n := len(w.Dialled("docs")); n < 4 || n > 6 {
			w.Errorf("dialled %d times in two minutes", n)
		}
		w.SetDown("docs", nil)
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.Args = []string{"--token"} }))
		w.pass(time.Second)
		w.wantState("docs", event.Ready)
	})
}

// A resource that the config selects during a sync is also subscribed to before it is read: a
// change between the two is published.
func TestSelectionChangesDuringASync(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("file:///b.md", "one")
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Exclude = []string{"file:///a.md"} }))
		w.pass(3 * time.Second)
		docs.Fail(sessiontest.Fault{Method: "resources/list", Times: 1, Delay: time.Second, Code: -32603, Message: "disk on fire"})
		docs.NotifyListChanged(catalog.Resources)
		w.pass(100 * time.Millisecond)
		w.apply(sessiontest.Entry("docs"))
		w.pass(time.Second) // the sync has failed, and is retried in about half a second
		docs.Set("file:///a.md", "two")
		w.pass(5 * time.Second)
		want := trueDigests(docs)["file:///a.md"]
		if got := digests(w)["file:///a.md"]; got != want {
			w.Errorf("known %s, truth %s:\n%s", got, want, w.log())
		}
	})
}

// A hanging sync does not delay a change of the config.
func TestSwitchedOffDuringAHungSync(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Method: "tools/list", Times: 1, Silent: true})
		docs.SetList(catalog.Tools, map[string]any{"name": "new"})
		docs.NotifyListChanged(catalog.Tools)
		w.pass(100 * time.Millisecond)
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }))
		w.pass(time.Second)
		if subs := docs.Subscribed(); len(subs) != 0 {
			w.Errorf("still subscribed to %q", subs)
		}
		docs.Set("file:///a.md", "two")
		w.pass(5 * time.Second)
		w.wantUpdates()
		// The work of the sync is not forgotten.
		if n := len(w.published(event.TypeToolsListChanged)); n != 1 {
			w.Errorf("%d changes of the tools were published:\n%s", n, w.log())
		}
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
	})
}

// With AllLists, the lists of a server are followed whatever its entry selects; its resources are
// not.
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
