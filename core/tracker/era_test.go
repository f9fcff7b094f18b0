package tracker

import (
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

// bothEras runs the test with a server of both eras that says so.
func bothEras(t *testing.T, test func(w *world, docs *sessiontest.Fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := sessiontest.New()
		docs.NamesLegacy = true
		docs.SetQuietly("file:///a.md", "one")
		docs.SetList(catalog.Tools, map[string]any{"name": "echo"})
		w.Add("docs", docs)
		test(w, docs)
	})
}

func (w *world) wantEra(era, other session.Era) {
	w.Helper()
	st, _ := w.tracker.Snapshot().Server("docs")
	if st.Info.Era != era || st.Info.Other != other || st.State != event.Ready {
		w.Fatalf("%s in the era %q, other %q; want %q, %q:\n%s", st.State, st.Info.Era, st.Info.Other, era, other, w.log())
	}
}

// A server that speaks both eras, and announces less in the modern one, is tracked in the legacy
// one. The user is told why.
func TestLegacyEraWhereItAnnouncesMore(t *testing.T) {
	for name, ack := range map[string]sessiontest.AckFault{
		"a list":  {NoTools: true},
		"updates": {Hide: []string{"file:///a.md"}},
	} {
		t.Run(name, func(t *testing.T) {
			bothEras(t, func(w *world, docs *sessiontest.Fake) {
				docs.FailAck(ack)
				w.start(sessiontest.Entry("docs"))
				w.pass(5 * time.Second)
				w.wantEra(session.EraLegacy, session.EraModern)
				states := w.published(event.TypeServerState)
				last := states[len(states)-1].Payload.(event.ServerState)
				if !strings.Contains(last.Reason, "2026-07-28") {
					w.Errorf("reason %q", last.Reason)
				}
				w.forget()
				docs.Set("file:///a.md", "two")
				docs.SetList(catalog.Tools, map[string]any{"name": "echo"}, map[string]any{"name": "more"})
				docs.NotifyListChanged(catalog.Tools)
				w.pass(5 * time.Second)
				if lists := w.published(event.TypeToolsListChanged); len(lists) != 1 || lists[0].Cause != event.CauseNotify {
					w.Errorf("not announced:\n%s", w.log())
				}
				w.wantUpdates("file:///a.md notify")
				docs.Disconnect() // what was found out stays
				w.pass(5 * time.Second)
				w.wantEra(session.EraLegacy, session.EraModern)
				if n := docs.Count("server/discover"); n != 1 {
					w.Errorf("%d discover", n)
				}
			})
		})
	}
}

// If the legacy era announces no more, the modern one stays, and that is not asked again.
func TestModernEraWhereTheLegacyAnnouncesNoMore(t *testing.T) {
	bothEras(t, func(w *world, docs *sessiontest.Fake) {
		docs.Capabilities["tools"] = map[string]any{}
		w.start(sessiontest.Entry("docs"))
		w.pass(5 * time.Second)
		w.wantEra(session.EraModern, session.EraLegacy)
		docs.Disconnect()
		w.pass(time.Minute)
		w.wantEra(session.EraModern, session.EraLegacy)
		if n := docs.Count("initialize"); n != 1 {
			w.Errorf("%d initialize", n)
		}
	})
}

// Some servers acknowledge a subscription in the modern era and send nothing.
func TestLegacyEraAfterMissedUpdates(t *testing.T) {
	bothEras(t, func(w *world, docs *sessiontest.Fake) {
		docs.FailAck(sessiontest.AckFault{Deaf: true})
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.SafetyInterval = config.DefaultSafetyInterval }))
		w.pass(5 * time.Second)
		w.wantEra(session.EraModern, session.EraLegacy)
		docs.Set("file:///a.md", "two")
		w.pass(time.Minute)
		w.wantEra(session.EraLegacy, session.EraModern)
		w.forget()
		docs.Set("file:///a.md", "five")
		w.pass(time.Second)
		w.wantUpdates("file:///a.md notify")
	})
}

// One that announced an update is read as rarely as any other.
func TestServersThatPushAreNotPolled(t *testing.T) {
	bothEras(t, func(w *world, docs *sessiontest.Fake) {
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.SafetyInterval = config.DefaultSafetyInterval }))
		w.pass(5 * time.Second)
		docs.Set("file:///a.md", "two")
		w.pass(5 * time.Second)
		reads := docs.Count("resources/read")
		w.pass(4 * time.Minute)
		if n := docs.Count("resources/read"); n > reads+1 {
			t.Errorf("%d reads in 4 min", n-reads)
		}
		w.wantEra(session.EraModern, session.EraLegacy)
	})
}

// A server that hangs after its first subscription over stdio is tracked in the legacy era.
func TestLegacyEraAfterAHangingListen(t *testing.T) {
	bothEras(t, func(w *world, docs *sessiontest.Fake) {
		docs.Fail(sessiontest.Fault{Method: "subscriptions/listen", Silent: true})
		for _, method := range []string{"server/discover", "tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
			if method == "server/discover" {
				docs.Fail(sessiontest.Fault{Method: method, Times: 1, Delay: time.Millisecond})
				docs.Fail(sessiontest.Fault{Method: method, Silent: true})
				continue
			}
			docs.Fail(sessiontest.Fault{Method: method, Silent: true, Times: 1})
		}
		w.start(sessiontest.Entry("docs"))
		w.pass(3 * time.Minute)
		w.wantEra(session.EraLegacy, session.EraModern)
	})
}

// What is remembered of a server is not applied to another one in its place.
func TestAnotherServerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		old := w.Serve("docs", session.EraLegacy)
		w.start(sessiontest.Entry("docs"))
		w.pass(time.Second)
		w.wantEra(session.EraLegacy, "")
		next := sessiontest.New()
		next.Name = "the next version"
		w.Add("docs", next)
		old.Disconnect()
		w.pass(10 * time.Second)
		w.wantEra(session.EraModern, "")
		if n := next.Count("initialize"); n != 1 {
			w.Errorf("%d initialize", n)
		}
	})
}
