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

// A resource whose subscription was not answered, or not for the moment, is subscribed to
// later: without reads nothing else would show its changes.
func TestFailedSubscriptionIsRepeated(t *testing.T) {
	for name, fault := range map[string]sessiontest.Fault{
		"not answered": {Silent: true},
		"refused":      {Code: -32603, Message: "try again later"},
		"unsupported":  {Code: -32601, Message: "still starting"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				docs := w.Serve("docs", session.EraLegacy)
				docs.SetQuietly("file:///a.md", "one")
				docs.SetQuietly("file:///b.md", "one")
				fault.Method, fault.URI, fault.Times = "resources/subscribe", "file:///a.md", 1
				docs.Fail(fault)
				w.start(sessiontest.Entry("docs", func(srv *config.Server) { srv.Read = config.ReadNone }))
				w.pass(time.Minute)
				w.wantState("docs", event.Ready)
				if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode == event.Push && len(st.Missing) == 0 {
					t.Fatal("the subscription did not fail")
				}
				w.pass(7 * time.Minute)
				if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Push || len(st.Missing) != 0 {
					t.Errorf("mode %q, missing %q", st.Mode, st.Missing)
				}
				w.forget()
				docs.Set("file:///a.md", "two")
				w.pass(5 * time.Second)
				w.wantUpdates("file:///a.md notify")
			})
		})
	}
}

// A comparison that failed for longer than reads are repeated is made later, also if nothing
// else reads the resource.
func TestFailedComparisonIsRepeated(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs", func(srv *config.Server) { srv.SafetyInterval = -1 }))
		w.pass(time.Minute)
		w.forget()
		w.SetDown("docs", sessiontest.ErrRefused)
		docs.SetQuietly("file:///a.md", "two")
		docs.Fail(sessiontest.Fault{Method: "resources/read", Code: -32603, Message: "the database is starting"})
		w.SetDown("docs", nil)
		w.pass(10 * time.Minute)
		w.wantState("docs", event.Ready)
		if n := docs.Count("resources/read"); n > 20 {
			w.Errorf("%d reads", n)
		}
		docs.Heal()
		w.pass(10 * time.Minute)
		w.wantUpdates("file:///a.md resync")
	})
}
