package tracker

import (
	"errors"
	"fmt"
	"reflect"
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

// methods returns the requests about resources on the wire, in order.
func methods(s *sessiontest.Fake) []string {
	var out []string
	for _, m := range s.Wire() {
		switch m.Method {
		case "resources/subscribe", "resources/unsubscribe", "resources/list", "resources/read", "subscriptions/listen":
			out = append(out, m.Method)
		}
	}
	return out
}

// Connecting subscribes to the known resources, lists, subscribes to those that the list added, and
// reads them. It publishes no event about their content: this is the baseline.
func TestConnectSubscribesBeforeItReads(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.PageSize = 40
		for i := range 120 {
			docs.SetQuietly(fmt.Sprintf("file:///%03d.md", i), "one")
		}
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.SafetyInterval = -1 }))
		w.pass(5 * time.Second)
		w.wantState("docs", event.Ready)
		if n := len(docs.Subscribed()); n != 120 {
			w.Errorf("%d resources are subscribed to, want 120", n)
		}
		active := w.published(event.TypeSubscriptionActive)
		if len(active) != 1 || active[0].Payload.(event.SubscriptionActive).Resources != 120 {
			w.Errorf("want one subscription.active of 120:\n%s", w.log())
		}
		w.wantUpdates()
		wire := methods(docs)
		lastSubscribe := max(lastIndex(wire, "resources/subscribe"), lastIndex(wire, "subscriptions/listen"))
		firstRead := slices.Index(wire, "resources/read")
		if firstRead < lastSubscribe || lastSubscribe < 0 {
			w.Errorf("read at %d, subscribed at %d", firstRead, lastSubscribe)
		}
		if n := docs.Count("resources/read"); n != 120 {
			w.Errorf("%d reads, want 120", n)
		}
		if n := docs.Count("subscriptions/listen"); n > 2 {
			w.Errorf("%d listens", n)
		}
	})
}

func lastIndex(all []string, s string) int {
	for i, v := range slices.Backward(all) {
		if v == s {
			return i
		}
	}
	return -1
}

// A server that offers nothing that is tracked is published as Unsupported once, stays connected,
// and is not retried.
func TestServerWithoutResources(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Capabilities = map[string]any{"completions": map[string]any{}}
		w.start(sessiontest.Entry("docs"))
		w.pass(time.Minute)
		w.wantState("docs", event.Unsupported)
		if n := len(w.published(event.TypeServerState)); n != 3 { // Pending, Connecting, Unsupported
			w.Errorf("%d states:\n%s", n, w.log())
		}
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
		if n := docs.Count("resources/list") + docs.Count("resources/subscribe"); n != 0 {
			w.Errorf("%d requests for what it does not offer", n)
		}
	})
}

// named returns a tool or prompt for SetList.
func named(name string) map[string]any { return map[string]any{"name": name} }

// A server that offers tools but no resources is Ready. If the user asked for its resources, the
// state says that there are none, also if the config asks for them later.
func TestOnlyTools(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Capabilities = map[string]any{"tools": map[string]any{"listChanged": true}}
		docs.SetList(catalog.Tools, named("a"), named("b"))
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Unasked = true }))
		w.pass(time.Minute)
		reason := func() string {
			w.wantState("docs", event.Ready)
			states := w.published(event.TypeServerState)
			return states[len(states)-1].Payload.(event.ServerState).Reason
		}
		if got := reason(); got != "" {
			w.Errorf("not asked for resources: reason %q", got)
		}
		w.apply(sessiontest.Entry("docs"))
		w.pass(time.Minute)
		if got := reason(); got != event.NoResources {
			w.Errorf("asked for resources: reason %q", got)
		}
		if n := len(w.published(event.TypeServerState)); n != 4 { // Pending, Connecting, Ready, Ready
			w.Errorf("%d states:\n%s", n, w.log())
		}
		w.wantActive(event.SubscriptionActive{Tools: 2})
	})
}

// subscription.active lists what is followed. It is published again when the set of resources
// changes, and not when a list of tools does.
func TestActive(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///b.md", "one")
		docs.SetQuietly("file:///a.md", "one")
		docs.SetList(catalog.Tools, named("x"), named("y"), named("z"))
		docs.SetList(catalog.Prompts, named("p"))
		w.start(sessiontest.Entry("docs"))
		w.pass(5 * time.Second)
		ab := event.SubscriptionActive{Resources: 2, URIs: []string{"file:///a.md", "file:///b.md"}, Tools: 3, Prompts: 1, Mode: event.Push}
		w.wantActive(ab)
		docs.SetList(catalog.Tools, named("x"))
		docs.NotifyListChanged(catalog.Tools)
		w.pass(5 * time.Second)
		if len(w.published(event.TypeToolsListChanged)) != 1 {
			w.Fatalf("the change of the tools is missing:\n%s", w.log())
		}
		w.wantActive(ab)
		docs.Set("file:///c.md", "new")
		docs.Remove("file:///a.md")
		w.pass(5 * time.Second)
		bc := event.SubscriptionActive{Resources: 2, URIs: []string{"file:///b.md", "file:///c.md"}, Tools: 1, Prompts: 1, Mode: event.Push}
		if all := w.published(event.TypeSubscriptionActive); !reflect.DeepEqual(all[len(all)-1].Payload, bc) {
			w.Errorf("want %+v:\n%s", bc, w.log())
		}
		w.forget()
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }))
		w.pass(5 * time.Second)
		w.wantActive(event.SubscriptionActive{Tools: 1, Prompts: 1})
		w.forget()
		docs.Disconnect()
		w.pass(5 * time.Second)
		w.wantActive(event.SubscriptionActive{Tools: 1, Prompts: 1})
	})
}

// Beyond MaxActiveURIs resources, only their number is published.
func TestActiveWithManyResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		for i := range event.MaxActiveURIs {
			docs.SetQuietly(fmt.Sprintf("file:///%03d.md", i), "one")
		}
		w.start(sessiontest.Entry("docs"))
		w.pass(5 * time.Second)
		docs.Set("file:///more.md", "one")
		w.pass(5 * time.Second)
		active := w.published(event.TypeSubscriptionActive)
		if len(active) != 2 || len(active[0].Payload.(event.SubscriptionActive).URIs) != event.MaxActiveURIs {
			t.Fatalf("%d events:\n%s", len(active), w.log())
		}
		if p := active[1].Payload.(event.SubscriptionActive); p.Resources != event.MaxActiveURIs+1 || p.URIs != nil {
			t.Errorf("%+v", p)
		}
	})
}

// Ready tells how long the attempt to connect took, without the waits before it.
func TestConnectedIn(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		w.SetDown("docs", errors.New("refused"))
		w.start(sessiontest.Entry("docs"))
		w.pass(5 * time.Second)
		docs.Fail(sessiontest.Fault{Method: "tools/list", Delay: 3 * time.Second, Times: 1})
		w.SetDown("docs", nil)
		w.pass(time.Minute)
		w.wantState("docs", event.Ready)
		states := w.published(event.TypeServerState)
		if p := states[len(states)-1].Payload.(event.ServerState); p.ConnectedIn != event.Milliseconds(3*time.Second) {
			w.Errorf("connected in %v:\n%s", time.Duration(p.ConnectedIn), w.log())
		}
	})
}

// A server that cannot push is polled; this is published once.
func TestServerWithoutSubscribeIsPolled(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Capabilities = map[string]any{"resources": map[string]any{}}
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.PollInterval = 10 * time.Second }))
		w.pass(time.Second)
		active := w.published(event.TypeSubscriptionActive)
		if len(active) != 1 || active[0].Payload.(event.SubscriptionActive).Mode != event.Poll {
			w.Fatalf("want one subscription.active in mode poll:\n%s", w.log())
		}
		docs.SetQuietly("file:///a.md", "two")
		w.pass(13 * time.Second)
		w.wantUpdates("file:///a.md poll")
		docs.SetQuietly("file:///b.md", "new")
		w.pass(13 * time.Second)
		if n := len(w.published(event.TypeResourceAdded)); n != 1 {
			w.Errorf("a new resource was not found by polling:\n%s", w.log())
		}
	})
}

// Servers are removed, added and changed without interrupting the others.
func TestApplyTouchesOnlyWhatDiffers(t *testing.T) {
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Options{})
				for _, id := range []string{"keep", "drop", "change", "new"} {
					w.Serve(id, era).SetQuietly("file:///a.md", "one")
				}
				w.start(sessiontest.Entry("keep"), sessiontest.Entry("drop"), sessiontest.Entry("change"))
				w.pass(time.Second)
				w.forget()
				w.tracker.Apply(&config.Config{Servers: []config.Server{
					sessiontest.Entry("keep"), sessiontest.Entry("new"), sessiontest.Entry("change", func(s *config.Server) { s.Args = []string{"-v"} })}})
				w.pass(time.Second)
				if n := len(w.Dialled("keep")); n != 1 {
					w.Errorf("the unchanged server was dialled %d times", n)
				}
				if n := len(w.Dialled("change")); n != 2 {
					w.Errorf("the changed server was dialled %d times", n)
				}
				w.wantState("new", event.Ready)
				w.wantState("change", event.Ready)
				if _, known := w.tracker.Snapshot().Server("drop"); known {
					w.Error("the removed server is still known")
				}
				if subs := w.Server("drop").Subscribed(); len(subs) != 0 {
					w.Errorf("the removed server still has subscriptions %q", subs)
				}
				for _, e := range w.published() {
					if e.ServerID == "keep" {
						w.Errorf("the unchanged server published %s", e.Type())
					}
				}
			})
		})
	}
}

// When trackResources is switched off, resources are unsubscribed from immediately, and no further
// event is published. When it is switched on again, they are subscribed to within 5 s, on the same
// session.
func TestTrackingSwitchedOffAndOn(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		off := func(s *config.Server) { s.TrackResources = false }
		w.tracker.Apply(&config.Config{Servers: []config.Server{sessiontest.Entry("docs", off)}})
		w.pass(time.Second)
		if subs := docs.Subscribed(); len(subs) != 0 {
			w.Fatalf("still subscribed to %q", subs)
		}
		w.forget()
		docs.Set("file:///a.md", "two")
		docs.Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": map[string]any{"uri": "file:///a.md"}})
		w.pass(5 * time.Second)
		if events := w.published(); len(events) != 0 {
			w.Fatalf("events after it was switched off:\n%s", w.log())
		}
		w.tracker.Apply(&config.Config{Servers: []config.Server{sessiontest.Entry("docs")}})
		w.pass(time.Second)
		if subs := docs.Subscribed(); len(subs) != 1 {
			w.Fatalf("subscribed to %q after it was switched on", subs)
		}
		docs.Set("file:///a.md", "three")
		w.pass(time.Second)
		w.wantUpdates("file:///a.md notify")
		if n := len(w.Dialled("docs")); n != 1 {
			w.Errorf("dialled %d times", n)
		}
	})
}

// A disabled server is known and not connected.
func TestDisabledServer(t *testing.T) {
	inWorld(t, func(w *world, _ *sessiontest.Fake) {
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Enabled = false }))
		w.pass(time.Minute)
		w.wantState("docs", event.Disabled)
		if n := len(w.Dialled("docs")); n != 0 {
			w.Errorf("dialled %d times", n)
		}
		w.tracker.Apply(&config.Config{Servers: []config.Server{sessiontest.Entry("docs")}})
		w.pass(time.Second)
		w.wantState("docs", event.Ready)
	})
}

// An HTTP catalog is known and not connected: it is no MCP server.
func TestCatalogIsNotDialled(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		catalog := func(s *config.Server) { s.Transport = config.TransportCatalog }
		w.start(sessiontest.Entry("docs", catalog))
		if _, err := w.tracker.Settled(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.pass(time.Minute)
		w.wantState("docs", event.Disabled)
		if st, _ := w.tracker.Snapshot().Server("docs"); !strings.Contains(st.Reason, "catalog") || st.Transport != config.TransportCatalog {
			w.Errorf("%+v", st)
		}
		if n := len(w.Dialled("docs")); n != 0 {
			w.Errorf("dialled %d times", n)
		}
		w.tracker.Apply(&config.Config{Servers: []config.Server{sessiontest.Entry("docs")}})
		w.pass(time.Second)
		w.wantState("docs", event.Ready)
		w.tracker.Apply(&config.Config{Servers: []config.Server{sessiontest.Entry("docs", catalog)}})
		w.pass(time.Second)
		w.wantState("docs", event.Disabled)
		if subs := docs.Subscribed(); len(subs) != 0 {
			w.Errorf("still subscribed to %q", subs)
		}
	})
}

// If this machine lacks something that a server needs, the server is known, its state names what is
// missing, and it is connected as soon as nothing is.
func TestUnconfiguredIsNotDialled(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		lacks := func(what string) config.Server {
			return sessiontest.Entry("docs", func(s *config.Server) { s.Missing = []string{what} })
		}
		w.start(lacks("uses variable A"))
		if _, err := w.tracker.Settled(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.pass(time.Hour)
		w.wantState("docs", event.Unconfigured)
		w.tracker.Apply(&config.Config{Servers: []config.Server{lacks("uses variable B")}})
		w.pass(time.Second)
		if st, _ := w.tracker.Snapshot().Server("docs"); st.State != event.Unconfigured || st.Error != "uses variable B" {
			w.Errorf("%+v", st)
		}
		if n := len(w.Dialled("docs")); n != 0 {
			w.Errorf("dialled %d times", n)
		}
		w.tracker.Apply(&config.Config{Servers: []config.Server{sessiontest.Entry("docs")}})
		w.pass(time.Second)
		w.wantState("docs", event.Ready)
	})
}

// Settled waits until every server was tried, and no longer.
func TestSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		w.Serve("up", session.EraLegacy)
		w.Serve("down", session.EraLegacy)
		w.SetDown("down", sessiontest.ErrRefused)
		w.start(sessiontest.Entry("up"), sessiontest.Entry("down"))
		snap, err := w.tracker.Settled(t.Context())
		if err != nil {
			w.Fatal(err)
		}
		if up, _ := snap.Server("up"); up.State != event.Ready {
			w.Errorf("up is %s", up.State)
		}
		if down, _ := snap.Server("down"); down.State != event.Backoff || !strings.Contains(down.Error, "refused") || down.NextRetry.IsZero() {
			w.Errorf("down is %+v", down)
		}
	})
}

// A shutdown publishes outstanding changes, unsubscribes, and leaves nothing behind.
func TestShutdownDrains(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		docs.Set("file:///a.md", "two")
		w.pass(500 * time.Millisecond)
		docs.Set("file:///a.md", "three") // inside the window
		w.pass(10 * time.Millisecond)
		w.end(nil)
		w.pass(5 * time.Second)
		w.wantUpdates("file:///a.md notify", "file:///a.md trailing")
		if subs := docs.Subscribed(); len(subs) != 0 {
			w.Errorf("still subscribed to %q", subs)
		}
		w.wantState("docs", event.Stopping)
	})
}

// No server is left Pending once the shutdown has begun.
func TestNothingIsPendingAtTheEnd(t *testing.T) {
	for range 50 { // the config and the end race
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, Options{})
			var entries []config.Server
			for i := range 10 {
				entries = append(entries, sessiontest.Entry(fmt.Sprint("s", i), func(s *config.Server) { s.Enabled = false }))
			}
			w.start(entries...)
			w.pass(time.Second)
			w.forget()
			w.apply(entries...)
			w.stopped()
			stopped := map[string]bool{}
			for _, e := range w.published(event.TypeServerState) {
				switch st := e.Payload.(event.ServerState); st.State {
				case event.Stopping:
					stopped[e.ServerID] = true
				case event.Pending:
					if stopped[e.ServerID] {
						w.Errorf("%s is pending after it has stopped", e.ServerID)
					}
				}
			}
		})
	}
}

// An entry without a poll interval, as an embedder may write it, is polled at the default interval.
func TestPollIntervalHasADefault(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.Capabilities = map[string]any{"resources": map[string]any{}}
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.PollInterval = 0 }))
		w.pass(10 * time.Second)
		if n := docs.Count("resources/read"); n != 1 {
			w.Errorf("%d reads in 10 s", n)
		}
		docs.SetQuietly("file:///a.md", "two")
		w.pass(30 * time.Second)
		w.wantUpdates("file:///a.md poll")
	})
}
