package tracker

import (
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A server with an entry that is not approved is not connected until it is.
func TestUnapprovedIsNotConnected(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		waits := func(s *config.Server) { s.Unapproved = "approve it" }
		w.start(sessiontest.Entry("docs", waits))
		w.pass(time.Hour)
		w.wantState("docs", event.Unapproved)
		st, _ := w.tracker.Snapshot().Server("docs")
		if n := docs.Count("initialize") + docs.Count("server/discover"); n != 0 || st.Connected() || st.Error != "not approved; approve it" {
			w.Errorf("%d handshakes, connected %t, error %q", n, st.Connected(), st.Error)
		}
		if n := len(w.published(event.TypeServerState)); n != 2 {
			w.Errorf("it is not published once:\n%s", w.log())
		}
		w.forget()
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.Unapproved = "approve it elsewhere" }))
		w.pass(3 * time.Second)
		if n := len(w.published(event.TypeServerState)); n != 1 {
			w.Errorf("another way to approve it is not published once:\n%s", w.log())
		}
		w.apply(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		w.wantState("docs", event.Ready)
		w.apply(sessiontest.Entry("docs", waits))
		w.pass(3 * time.Second)
		w.wantState("docs", event.Unapproved)
		docs.Set("file:///a.md", "two")
		w.pass(time.Minute)
		w.wantUpdates()
	})
}

// A server whose entry was approved before the one that waits stays connected, also after crashes; its state
// says that something waits, whenever it is connected.
func TestSupersededStillConnected(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		handshakes := func() int { return docs.Count("initialize") + docs.Count("server/discover") }
		before := handshakes()
		waits := sessiontest.Entry("docs", func(s *config.Server) { s.Unapproved, s.Superseded = "approve it", true })
		w.apply(waits)
		w.pass(3 * time.Second)
		expect := func(what string) {
			w.Helper()
			w.wantState("docs", event.Unapproved)
			st, _ := w.tracker.Snapshot().Server("docs")
			if !st.Connected() || !st.StillConnected || !strings.Contains(st.Error, "approve it") {
				w.Errorf("%s: %+v", what, st)
			}
		}
		expect("at first")
		w.forget()
		waits.Unapproved = "approve it elsewhere"
		w.apply(waits)
		w.pass(3 * time.Second)
		expect("elsewhere")
		if n := len(w.published(event.TypeServerState)); n != 1 {
			w.Errorf("another way to approve it is not published once:\n%s", w.log())
		}
		docs.Set("file:///a.md", "two")
		w.pass(5 * time.Second)
		w.wantUpdates("file:///a.md notify")
		if handshakes() > before+1 { // the modern era probes now and then
			w.Errorf("%d handshakes", handshakes()-before)
		}
		docs.Disconnect()
		w.SetDown("docs", sessiontest.ErrRefused)
		w.pass(5 * time.Second)
		w.wantState("docs", event.Backoff)
		w.SetDown("docs", nil)
		w.pass(time.Minute)
		expect("after a crash")
		w.forget()
		w.apply(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		w.wantState("docs", event.Ready)
		st, _ := w.tracker.Snapshot().Server("docs")
		if st.Error != "" || st.StillConnected {
			w.Errorf("approved: %+v", st)
		}
		if n := len(w.published(event.TypeServerState)); n != 1 {
			w.Errorf("the session did not stay:\n%s", w.log())
		}
		// One that is still connected, and then is not approved at all, is published as such.
		w.apply(waits)
		w.pass(3 * time.Second)
		expect("again")
		w.forget()
		waits.Superseded = false
		w.apply(waits)
		w.pass(3 * time.Second)
		w.wantState("docs", event.Unapproved)
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Connected() || len(w.published(event.TypeServerState)) == 0 {
			w.Errorf("%+v:\n%s", st, w.log())
		}
	})
}
