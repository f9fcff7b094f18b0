package tracker

import (
	"encoding/json"
	"fmt"
	"slices"
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

// A new resource costs a modern server on stdio its listen for a moment: what
// changes in it is one event (F8).
func TestChangeDuringAListSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraModern)
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.Set("file:///new.md", "one")
		for range 100 {
			if w.pass(time.Millisecond); docs.Listens() == 0 {
				break
			}
		}
		if docs.Listens() != 0 {
			w.Fatal("the listen was never interrupted: this test tests nothing")
		}
		docs.Set("file:///b.md", "two") // nobody listens
		w.pass(5 * time.Second)
		w.wantUpdates("file:///b.md resync")
		if n := docs.Listens(); n != 1 {
			w.Errorf("%d listens", n)
		}
	})
}

// An update of a resource that the sync under way has subscribed to, but that is
// not known yet, is published when it is.
func TestUpdateDuringASyncIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Method: "resources/subscribe", URI: "file:///d.md", Times: 1, Delay: time.Second})
		docs.SetQuietly("file:///d.md", "one")
		docs.Set("file:///c.md", "one")
		w.pass(300 * time.Millisecond)
		for i := range 3 {
			docs.Set("file:///c.md", fmt.Sprint("version ", i))
			w.pass(100 * time.Millisecond)
		}
		w.pass(5 * time.Second)
		w.wantUpdates("file:///c.md notify")
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Counts.Signals != 3 || st.Counts.Unknown != 0 {
			w.Errorf("three updates were announced; counted %+v", st.Counts)
		}
	})
}

// A server that replaces its list by clearing it first removes nothing.
func TestListIsEmptyForAMoment(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetList(catalog.Tools, map[string]any{"name": "one"}, map[string]any{"name": "two"})
		settledOn(w, docs, "file:///a.md")
		docs.SetList(catalog.Tools)
		docs.NotifyListChanged(catalog.Tools)
		w.pass(100 * time.Millisecond)
		docs.SetList(catalog.Tools, map[string]any{"name": "one"}, map[string]any{"name": "two"}, map[string]any{"name": "three"})
		docs.NotifyListChanged(catalog.Tools)
		w.pass(5 * time.Second)
		changes := w.published(event.TypeToolsListChanged)
		if len(changes) != 1 || len(changes[0].Payload.(event.ListChanged).Removed) != 0 || changes[0].Cause != event.CauseNotify {
			w.Errorf("want one change that removes nothing:\n%s", w.log())
		}
		docs.SetList(catalog.Tools) // and this time for good
		docs.NotifyListChanged(catalog.Tools)
		w.pass(5 * time.Second)
		if changes := w.published(event.TypeToolsListChanged); len(changes) != 2 || len(changes[1].Payload.(event.ListChanged).Removed) != 3 {
			w.Errorf("want the end of three tools:\n%s", w.log())
		}
	})
}

// goodbye returns, sorted, what the server believes to be subscribed to by what
// it was asked on the wire, whatever became of the connection.
func goodbye(docs *sessiontest.Fake) []string {
	subscribed, listens := map[string]bool{}, map[string]bool{}
	for _, m := range docs.Wire() {
		var p struct {
			URI       string          `json:"uri"`
			RequestID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &p)
		switch m.Method {
		case "resources/subscribe":
			subscribed[p.URI] = true
		case "resources/unsubscribe":
			delete(subscribed, p.URI)
		case "subscriptions/listen":
			listens["listen "+string(m.ID)] = true
		case "notifications/cancelled":
			delete(listens, "listen "+string(p.RequestID))
		}
	}
	var left []string
	for s := range subscribed {
		left = append(left, s)
	}
	for s := range listens {
		left = append(left, s)
	}
	slices.Sort(left)
	return left
}

// A listen for lists alone is ended on the wire, too.
func TestListenForListsIsEndedOnTheWire(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }))
		w.pass(3 * time.Second)
		if docs.Modern && docs.Listens() != 1 {
			w.Fatalf("%d listens", docs.Listens())
		}
		w.end(nil)
		w.pass(time.Second)
		if left := goodbye(docs); len(left) != 0 {
			w.Errorf("still subscribed to %q", left)
		}
	})
}

// A server that is removed is unsubscribed from on the wire, and nothing is subscribed
// to after that, also if a sync was about to (B2, B11).
func TestRemovedServerIsUnsubscribedFrom(t *testing.T) {
	for name, leave := range map[string]func(w *world){
		"removed":  func(w *world) { w.apply() },
		"shutdown": func(w *world) { w.end(nil) },
	} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s busy=%t", name, busy), func(t *testing.T) {
				inWorld(t, func(w *world, docs *sessiontest.Fake) {
					settledOn(w, docs, "file:///a.md", "file:///b.md")
					if busy {
						docs.Fail(sessiontest.Fault{Method: "resources/list", Times: 1, Silent: true})
						docs.Set("file:///new.md", "one")
						w.pass(100 * time.Millisecond)
					}
					leave(w)
					w.pass(time.Second)
					if left := goodbye(docs); len(left) != 0 {
						w.Errorf("still subscribed to %q", left)
					}
				})
			})
		}
	}
}

// A server that is removed and wanted again before it was let go of is back as
// soon as it has gone, as a new one.
func TestServerReturnsToTheConfigWhileClosing(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.Fail(sessiontest.Fault{Silent: true}) // the goodbye takes its time
		w.apply()
		w.pass(50 * time.Millisecond)
		w.wantState("docs", event.Stopping)
		docs.Heal()
		docs.SetQuietly("file:///c.md", "one")
		docs.Remove("file:///b.md")
		w.apply(sessiontest.Entry("docs"))
		w.pass(5 * time.Second)
		w.wantState("docs", event.Ready)
		st, _ := w.tracker.Snapshot().Server("docs")
		var uris []string
		for _, r := range st.Resources {
			uris = append(uris, strings.TrimPrefix(r.URI, "file:///"))
		}
		if !slices.Equal(uris, []string{"a.md", "c.md"}) {
			w.Errorf("follows %q", uris)
		}
		if st.Counts.Signals != 0 {
			w.Errorf("a new worker begins with %+v", st.Counts)
		}
		docs.Set("file:///c.md", "two")
		w.pass(time.Second)
		w.wantUpdates("file:///c.md notify")
	})
}
