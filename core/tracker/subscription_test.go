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

// A new resource interrupts the listen of a modern server over stdio for a moment; a change during
// it is one event.
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
		docs.Set("file:///b.md", "two") // there is no listen now
		w.pass(5 * time.Second)
		w.wantUpdates("file:///b.md resync")
		if n := docs.Listens(); n != 1 {
			w.Errorf("%d listens", n)
		}
	})
}

// An update of a resource that the running sync has subscribed to, but that is not known yet, is
// published once it is known.
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

// If a server replaces its list by clearing it first, nothing is removed.
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
		docs.SetList(catalog.Tools) // and this time it stays empty
		docs.NotifyListChanged(catalog.Tools)
		w.pass(5 * time.Second)
		if changes := w.published(event.TypeToolsListChanged); len(changes) != 2 || len(changes[1].Payload.(event.ListChanged).Removed) != 3 {
			w.Errorf("want the end of three tools:\n%s", w.log())
		}
	})
}

// goodbye returns, sorted, what is still subscribed to according to the requests on the wire,
// whatever happened to the connection.
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

// A listen for lists alone is also ended on the wire.
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

// A removed server is unsubscribed from on the wire, and nothing is subscribed to after that, even
// if a sync was about to.
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

// A server that is removed and wanted again before its worker has ended returns, as a new one, as
// soon as the worker has ended.
func TestServerReturnsToTheConfigWhileClosing(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.Fail(sessiontest.Fault{Silent: true}) // the unsubscribe is slow
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

// withoutSubscribe is a server that offers subscriptions and does not know the method.
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

// A resource that its list gained while it was away is also polled.
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

// When a polled server begins to push, changes before that are found immediately.
func TestPolledServerBeginsToPush(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		withoutSubscribe(docs)
		settledOn(w, docs, "file:///a.md")
		docs.Heal()
		docs.SetQuietly("file:///a.md", "two")
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.TrackTools = false })) // subscribes again
		w.pass(3 * time.Second)
		w.wantUpdates("file:///a.md resync")
		if st, _ := w.tracker.Snapshot().Server("docs"); st.Mode != event.Push {
			w.Errorf("resources are followed by %q", st.Mode)
		}
	})
}

// If clients unsubscribe from a resource and subscribe to it again before the unsubscribe is
// answered, the resource is compared: a change in between was not announced.
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
				// The server acts immediately; its answer takes 200 ms.
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

// A resource that the server first refuses to push is compared when it agrees.
func TestRefusedAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		docs.Fail(sessiontest.Fault{Method: "resources/subscribe", URI: "file:///a.md", Code: -32603, Message: "not now"})
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.Heal()
		docs.SetQuietly("file:///a.md", "two")
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.TrackTools = false })) // subscribes again
		w.pass(3 * time.Second)
		w.wantUpdates("file:///a.md resync")
	})
}

// If nothing is pushed and nothing is read, no event or warning claims that resources are polled.
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

// The same for resources that the server refuses to push.
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
				w.Fatal("it has not started")
			}
			if err := c.Unsubscribe(w.Context(), "file:///a.md"); err != nil {
				w.Fatal(err)
			}
			w.pass(time.Second)
		}
	})
}
