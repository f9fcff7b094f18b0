package tracker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// withoutSubscribe is a server that offers subscriptions and does not know the
// method.
func withoutSubscribe(docs *sessiontest.Server) {
	method := "resources/subscribe"
	if docs.Modern {
		method = "subscriptions/listen"
	}
	docs.Fail(sessiontest.Fault{Method: method, Code: -32601, Message: "Method not found"})
}

// A server that offers subscriptions and does not know the method is polled.
func TestSubscribeIsNotThere(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Server) {
		withoutSubscribe(docs)
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		if st, _ := w.tracker.Snapshot().Server("docs"); len(st.Resources) != 2 || st.Mode != event.Poll {
			w.Errorf("%d resources are followed by %q, want 2 by polling", len(st.Resources), st.Mode)
		}
		docs.SetQuietly("file:///a.md", "two")
		w.pass(time.Minute)
		w.wantUpdates("file:///a.md poll")
	})
}

// So is what its list has gained while it was away.
func TestSubscribeIsNotThereAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		withoutSubscribe(docs)
		settledOn(w, docs, "file:///a.md")
		w.SetDown("docs", sessiontest.ErrRefused)
		docs.SetQuietly("file:///b.md", "one")
		w.SetDown("docs", nil)
		w.pass(5 * time.Second)
		docs.SetQuietly("file:///b.md", "two")
		w.pass(time.Minute)
		w.wantUpdates("file:///b.md poll")
	})
}

// What changed before a server that was polled begins to push is found at once.
func TestPolledServerBeginsToPush(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Server) {
		withoutSubscribe(docs)
		settledOn(w, docs, "file:///a.md")
		docs.Heal()
		docs.SetQuietly("file:///a.md", "two")
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.TrackTools = false })) // subscribes anew
		w.pass(3 * time.Second)
		w.wantUpdates("file:///a.md resync")
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Push {
			w.Errorf("resources are followed by %q", st.Mode)
		}
	})
}
