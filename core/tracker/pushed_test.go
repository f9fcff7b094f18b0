package tracker

import (
	"strings"
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
func withoutSubscribe(docs *sessiontest.Fake) {
	method := "resources/subscribe"
	if docs.Modern {
		method = "subscriptions/listen"
	}
	docs.Fail(sessiontest.Fault{Method: method, Code: -32601, Message: "Method not found"})
}

// A server that offers subscriptions and does not know the method is polled.
func TestSubscribeMethodIsUnknown(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
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
func TestSubscribeIsUnknownAfterARestart(t *testing.T) {
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
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
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

// A resource that clients unsubscribe from and subscribe to again while the first is
// under way is compared: what changed between was announced to nobody.
func TestSubscribedAgainMeanwhile(t *testing.T) {
	for _, read := range []config.ReadMode{config.ReadDigest, config.ReadNone} {
		t.Run(string(read), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				docs := w.Serve("docs", session.EraLegacy)
				docs.SetQuietly("file:///a.md", "one")
				docs.SetQuietly("file:///b.md", "one")
				w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Include, s.Read = []string{"file:///b.md"}, read }))
				w.pass(3 * time.Second)
				c := w.tracker.Client("docs")
				if err := c.Subscribe(t.Context(), "file:///a.md"); err != nil {
					w.Fatal(err)
				}
				w.pass(3 * time.Second)
				// The server acts at once; its answer takes 200 ms.
				docs.Fail(sessiontest.Fault{Method: "resources/unsubscribe", Times: 1, Delay: 200 * time.Millisecond, Old: true})
				w.forget()
				w.running.Go(func() { _ = c.Unsubscribe(t.Context(), "file:///a.md") })
				w.pass(50 * time.Millisecond)
				w.running.Go(func() { _ = c.Subscribe(t.Context(), "file:///a.md") })
				w.pass(50 * time.Millisecond)
				if len(docs.Subscribed()) != 1 {
					w.Fatalf("subscribed to %q: this test tests nothing", docs.Subscribed())
				}
				docs.Set("file:///a.md", "two")
				w.pass(5 * time.Second)
				w.wantUpdates("file:///a.md resync")
			})
		})
	}
}

// What the server has refused to push and agrees to later is compared then.
func TestRefusedAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		docs.Fail(sessiontest.Fault{Method: "resources/subscribe", URI: "file:///a.md", Code: -32603, Message: "not now"})
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.Heal()
		docs.SetQuietly("file:///a.md", "two")
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.TrackTools = false })) // subscribes anew
		w.pass(3 * time.Second)
		w.wantUpdates("file:///a.md resync")
	})
}

// Where nothing is pushed and nothing is read, nobody says that resources are polled.
func TestNeitherPushedNorRead(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Capabilities = map[string]any{"resources": map[string]any{}}
		docs.SetQuietly("file:///a.md", "one")
		unread := sessiontest.Entry("docs", func(s *config.Server) { s.Read = config.ReadNone })
		w.start(unread)
		w.pass(3 * time.Second)
		active := w.published(event.TypeSubscriptionActive)
		if len(active) != 1 || active[0].Payload.(event.SubscriptionActive).Mode != "" {
			w.Errorf("want one subscription.active without a mode:\n%s", w.log())
		}
		if got := w.logs.warnings(); len(got) != 1 || !strings.Contains(got[0], `set "read": "digest"`) {
			w.Errorf("warnings %q", got)
		}
		w.apply(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Poll {
			w.Errorf("read again, resources are followed by %q", st.Mode)
		}
	})
}

// So it is with what the server refuses to push.
func TestRefusedAndNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		docs.SetQuietly("file:///a.md", "one")
		docs.Fail(sessiontest.Fault{Method: "resources/subscribe", Code: -32603, Message: "no"})
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Read = config.ReadNone }))
		w.pass(3 * time.Second)
		if got := w.logs.warnings(); len(got) != 1 || !strings.Contains(got[0], `set "read": "digest"`) {
			w.Errorf("warnings %q", got)
		}
	})
}

// When Subscribe returns, the subscription is active and its event is published.
func TestSubscriptionIsPublishedBeforeSubscribeReturns(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Include = []string{"file:///b.md"} }))
		w.pass(3 * time.Second)
		c := w.tracker.Client("docs")
		for range 100 {
			seq := w.tracker.Snapshot().Seq
			if err := c.Subscribe(w.Context(), "file:///a.md"); err != nil {
				w.Fatal(err)
			}
			if !c.Subscribed("file:///a.md") || w.tracker.Snapshot().Seq == seq {
				w.Fatal("it has not begun")
			}
			if err := c.Unsubscribe(w.Context(), "file:///a.md"); err != nil {
				w.Fatal(err)
			}
			w.pass(time.Second)
		}
	})
}
