package tracker

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// 500 resources are one listen, or one subscription each, and stay that through
// routine comparisons: nothing is subscribed to twice (E6, F9).
func TestNothingIsSubscribedTwice(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.PageSize = 50
		for i := range 500 {
			docs.SetQuietly(fmt.Sprintf("file:///%03d.md", i), "one")
		}
		w.start(sessiontest.Entry("docs"))
		w.pass(5 * time.Second)
		if n := len(docs.Subscribed()); n != 500 {
			w.Fatalf("%d of 500 are subscribed to after 5 s", n)
		}
		wants := map[string]int{"resources/subscribe": 500}
		if docs.Modern {
			// The first one, for lists only, is there before the resources are known.
			wants = map[string]int{"resources/subscribe": 0, "subscriptions/listen": 2}
		}
		w.pass(7 * time.Minute) // a routine comparison
		docs.NotifyListChanged(catalog.Resources)
		w.pass(time.Minute)
		for method, want := range wants {
			if n := docs.Count(method); n != want {
				w.Errorf("%d %s, want %d", n, method, want)
			}
		}
		if n := docs.Count("resources/unsubscribe"); n != 0 {
			w.Errorf("%d unsubscribes", n)
		}
		if docs.Listens() > 1 {
			w.Errorf("%d listens are open", docs.Listens())
		}
		w.wantUpdates()
	})
}

// The era is learned once: however often a modern server is connected to, at most
// one initialize is refused, and nothing of the other era is sent (F1).
func TestEraIsLearnedOnce(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		for range 5 {
			docs.Disconnect()
			w.pass(30 * time.Second)
		}
		w.wantState("docs", event.Ready)
		dials := len(w.Dialled("docs"))
		if dials < 6 {
			w.Fatalf("dialled only %d times", dials)
		}
		if docs.Modern {
			if n := docs.Count("initialize"); n > 1 {
				w.Errorf("%d initialize", n)
			}
			if n := docs.Count("resources/subscribe"); n != 0 {
				w.Errorf("%d resources/subscribe", n)
			}
		} else if n := docs.Count("initialize"); n != dials || docs.Count("subscriptions/listen") != 0 {
			w.Errorf("%d initialize in %d connections, %d listens", n, dials, docs.Count("subscriptions/listen"))
		}
		for _, e := range w.published(event.TypeServerState) {
			if p := e.Payload.(event.ServerState); p.State == event.Ready && (p.Era != string(session.EraModern)) == docs.Modern {
				w.Errorf("published the era %q", p.Era)
			}
		}
	})
}

// Notifications for other clients are counted and ignored; those without their tag on
// stdio is (F5).
func TestForeignNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraModern)
		docs.FailAck(sessiontest.AckFault{Early: true})
		settledOn(w, docs, "file:///a.md")
		w.pass(15 * time.Second)
		dropped := func() map[string]uint64 {
			st, _ := w.tracker.Snapshot().Server("docs")
			return st.Counts.Dropped
		}
		if n := dropped()["before_ack"]; n == 0 {
			w.Errorf("nothing was dropped for coming early: %v", dropped())
		}
		update := func(uri string, tag any) map[string]any {
			params := map[string]any{"uri": uri}
			if tag != nil {
				params["_meta"] = map[string]any{"io.modelcontextprotocol/subscriptionId": tag}
			}
			return map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}
		}
		docs.Broadcast(update("file:///a.md", "somebody else's"))
		docs.Broadcast(update("file:///never.md", nil))
		w.pass(15 * time.Second)
		w.wantUpdates()
		if d := dropped(); d["foreign_subscription"] != 1 || d["unsubscribed"] != 1 {
			w.Errorf("dropped %v", d)
		}
		docs.SetQuietly("file:///a.md", "two")
		docs.Broadcast(update("file:///a.md", nil))
		w.pass(3 * time.Second)
		w.wantUpdates("file:///a.md notify")
		if d := dropped(); d["untagged"] != 2 && d["untagged"] != 1 {
			w.Errorf("dropped %v", d)
		}
	})
}

// 50 announcements of changed resources cost at most two syncs, and the set
// follows the last of them (B5).
func TestResourceListFlood(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		before := docs.Count("resources/list")
		for i := range 50 {
			docs.Set(fmt.Sprintf("file:///new-%02d.md", i), "one")
			w.pass(2 * time.Millisecond)
		}
		w.pass(5 * time.Second)
		limit := 2
		if docs.Modern {
			limit = 4 // each swap of a listen over stdio looks once more
		}
		if n := docs.Count("resources/list") - before; n < 1 || n > limit {
			w.Errorf("%d syncs for 50 announcements", n)
		}
		if n := len(docs.Subscribed()); n != 51 {
			w.Errorf("%d are subscribed to, want 51", n)
		}
		added := w.published(event.TypeResourceAdded)
		if len(added) != 50 || added[0].Cause != event.CauseNotify {
			w.Errorf("%d were published as added:\n%s", len(added), w.log())
		}
	})
}

// Another descriptor makes the content be looked at, too: it may be all that a
// server says.
func TestChangedDescriptor(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.SetResource("file:///a.md", sessiontest.Resource{Text: "# two", MimeType: "text/markdown"})
		docs.NotifyListChanged(catalog.Resources)
		w.pass(3 * time.Second)
		if n := len(w.published(event.TypeResourceChanged)); n != 1 {
			w.Errorf("%d descriptors were published as changed", n)
		}
		w.wantUpdates("file:///a.md resync")
	})
}

// The calls of onConnect are made once in every session, in order, after the
// subscription; one that fails stops nothing.
func TestOnConnect(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Code: -32603, Message: "not now"})
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs", func(s *config.Server) {
			s.OnConnect = []config.ToolCall{{Tool: "first"}, {Tool: "second"}}
		}))
		w.pass(3 * time.Second)
		docs.NotifyListChanged(catalog.Resources)
		w.pass(time.Second)
		if n := docs.Count("tools/call"); n != 2 {
			w.Fatalf("%d calls, want 2", n)
		}
		docs.Disconnect()
		w.pass(3 * time.Second)
		if n := docs.Count("tools/call"); n != 4 {
			w.Errorf("%d calls in two sessions, want 4", n)
		}
		wire := docs.Wire()
		called := slices.IndexFunc(wire, func(m sessiontest.Message) bool { return m.Method == "tools/call" })
		subscribed := slices.IndexFunc(wire, func(m sessiontest.Message) bool {
			return m.Method == "resources/subscribe" || m.Method == "subscriptions/listen"
		})
		if subscribed < 0 || called < subscribed {
			w.Errorf("called at %d, subscribed at %d", called, subscribed)
		}
		if n := len(w.logs.warnings()); n != 2 { // the failed call, the cut connection
			w.Errorf("warnings %q", w.logs.warnings())
		}
	})
}
