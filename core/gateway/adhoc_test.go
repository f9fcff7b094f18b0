package gateway

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Ad-hoc subscriptions of clients that left stay for a while; their number is limited.
func TestAdhocLimit(t *testing.T) {
	g, err := New(Options{Serve: mcpserver.Options{Subscriptions: subscriptions.Options{MaxTotal: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.exports.Store(newExports(contribution{}, []contribution{{id: "a", serverState: serverState{subscribes: true}}}, *g.filter.Load(), func(Refusal) {}))
	for i := range 10 {
		if got := g.subscribable(fmt.Sprintf("x://%d", i)); got != (i < 3) {
			t.Errorf("%d: subscribable is %t", i, got)
		}
	}
	if !g.subscribable("x://0") {
		t.Error("what is wanted already is refused")
	}
	if n := len(g.adhoc.subs); n != 3 {
		t.Errorf("%d resources are wanted", n)
	}
}

// A resource whose last subscriber leaves while a goroutine is subscribing is removed only
// afterwards, so that it can be unsubscribed.
func TestAdhocUnusedWhileSubscribing(t *testing.T) {
	d := adhocSet{limit: 10}
	at := target{"a", "x://1"}
	d.add(at, at.key, false)
	later := time.Now().Add(2 * minAdhocAge)
	none := func(string) bool { return false }
	if todo := d.pending(later, func(string) bool { return true }); len(todo["a"]) != 1 {
		t.Fatalf("to ask for: %v", todo)
	}
	d.unused(later, none)
	d.attempted(at, false, func() bool { return true }) // the server accepted it
	if gone := d.unused(later, none); len(gone) != 1 || gone[0] != at {
		t.Errorf("given up: %v", gone)
	}
}

// If a client returns while the resource is being unsubscribed, the gateway subscribes
// afterwards, not concurrently: otherwise the last request to arrive would win.
func TestAdhocClientReturns(t *testing.T) {
	d := adhocSet{limit: 10}
	at := target{"a", "x://1"}
	d.add(at, at.key, false)
	later := time.Now().Add(2 * minAdhocAge)
	ready := func(string) bool { return true }
	d.pending(later, ready)
	d.attempted(at, false, func() bool { return true })
	if gone := d.unused(later, func(string) bool { return false }); !slices.Equal(gone, []target{at}) {
		t.Fatalf("given up: %v", gone)
	}
	d.add(at, at.key, false)
	if todo := d.pending(later, ready); len(todo) > 0 {
		t.Errorf("requested while it is being unsubscribed: %v", todo)
	}
	if !d.keepActive("a", nil) {
		t.Error("nothing was lost")
	}
	if !d.released(at) {
		t.Error("the returning client is not reported")
	}
	if todo := d.pending(later, ready); !slices.Equal(todo["a"], []string{at.key}) {
		t.Errorf("to ask for: %v", todo)
	}
	d.attempted(at, false, func() bool { return true })
	d.unused(later, func(string) bool { return false })
	if d.released(at) || len(d.subs) > 0 {
		t.Errorf("%d resources are kept", len(d.subs))
	}
}

// subscribe subscribes a client to lists and to URIs.
func (w *fixture) subscribe(c *session.Session, uris ...string) session.Ack {
	w.Helper()
	ack, err := c.Subscribe(w.Context(), session.Filter{Tools: true, Prompts: true, Resources: true, URIs: uris})
	if err != nil {
		w.Fatal(err)
	}
	w.advance(time.Second)
	c.Signals().Take() // signals of the subscription itself
	return ack
}

// received returns the lists and URIs of the client's notifications since the last call, sorted.
func received(c *session.Session) string {
	b := c.Signals().Take()
	var out []string
	for k := range b.Lists {
		if k != catalog.Templates {
			out = append(out, string(k))
		}
	}
	for uri := range b.URIs {
		out = append(out, uri)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// Only subscribers are notified, within moments; a subsequent read returns the new content.
func TestUpdates(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		for _, id := range []string{"a", "b"} {
			w.Serve(id, era).SetQuietly("file:///shared", "old")
			w.Server(id).SetQuietly("file:///"+id, "old")
		}
		w.start(sessiontest.Entry("a"), sessiontest.Entry("b"))
		one, both, none := w.client(era), w.client(session.EraModern), w.client(session.EraLegacy)
		w.subscribe(one, "file:///a")
		w.subscribe(both, "file:///a", "mcptrack://server/b/file:///shared")
		w.subscribe(none)
		w.Server("a").Set("file:///a", "new")
		synctest.Wait() // no time passes
		if a, b, c := received(one), received(both), received(none); a != "file:///a" || b != "file:///a" || c != "" {
			w.Errorf("received %q, %q, %q", a, b, c)
		}
		if got, err := one.Read(w.Context(), "file:///a"); err != nil || !strings.Contains(string(got.Raw), "new") {
			w.Errorf("%v", err)
		}
		w.Server("a").Set("file:///shared", "new") // on the other server
		w.Server("b").Set("file:///shared", "new")
		synctest.Wait()
		if a, b := received(one), received(both); a != "" || b != "mcptrack://server/b/file:///shared" {
			w.Errorf("received %q, %q", a, b)
		}
		// A change within the window is published at the end of the window.
		w.Server("a").Set("file:///a", "newer")
		w.advance(10 * time.Second)
		if a := received(one); a != "file:///a" {
			w.Errorf("received %q", a)
		}
	})
}

// A resource that the config does not track is followed while a client is subscribed: a resource
// of a template, or of a server that is not tracked.
func TestAdhocSubscriptions(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetQuietly("file:///listed", "old")
		docs.SetQuietly("note:///1", "old")
		docs.SetList(catalog.Templates, map[string]any{"name": "n", "uriTemplate": "note:///{id}"})
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }))
		if n := len(docs.Subscribed()); n != 0 {
			w.Fatalf("subscribed to %q", docs.Subscribed())
		}
		c := w.client(era)
		w.subscribe(c, "file:///listed", "note:///2")
		if got := strings.Join(docs.Subscribed(), " "); got != "file:///listed note:///2" {
			w.Fatalf("subscribed to %q", got)
		}
		received(c) // it may have changed before it was followed
		docs.Set("file:///listed", "new")
		docs.NotifyUpdated("note:///2")
		w.advance(time.Second) // that the second cannot be read is confirmed by another read
		if got := received(c); got != "file:///listed note:///2" {
			w.Errorf("received %q", got)
		}
		// A new session is subscribed again, and missed updates are published.
		w.SetDown("docs", sessiontest.ErrRefused)
		w.advance(time.Second)
		received(c)
		w.SetDown("docs", nil)
		w.advance(time.Minute)
		if got := received(c); got != "file:///listed note:///2" {
			w.Errorf("after a restart: received %q", got)
		}
		docs.Set("file:///listed", "newer")
		w.advance(5 * time.Second)
		if got := received(c); got != "file:///listed" {
			w.Errorf("after a restart: received %q", got)
		}
		// The subscription ends with the last subscriber.
		if err := c.Close(); err != nil {
			w.Fatal(err)
		}
		w.advance(2 * time.Minute)
		if n := len(docs.Subscribed()); n != 0 {
			w.Errorf("still subscribed to %q", docs.Subscribed())
		}
	})
}

// A subscription that can never have an update is not acknowledged.
func TestNotSubscribable(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetQuietly("file:///a", "old")
		docs.Capabilities = map[string]any{"resources": map[string]any{}}
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }))
		c := w.client(era)
		ack, err := c.Subscribe(w.Context(), session.Filter{URIs: []string{"file:///a"}})
		if err == nil && len(ack.MissingURIs) != 1 {
			w.Errorf("%+v", ack)
		}
	})
}

// Resources of servers that cannot push are polled, and their subscribers are notified.
func TestPolledResources(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetQuietly("file:///a", "old")
		docs.Capabilities = map[string]any{"resources": map[string]any{}}
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.subscribe(c, "file:///a")
		w.advance(2 * time.Minute)
		received(c)
		docs.SetQuietly("file:///a", "new")
		w.advance(2 * time.Minute)
		if got := received(c); got != "file:///a" {
			w.Errorf("received %q", got)
		}
	})
}

// An update of a child of a subscribed resource is an update of that resource.
func TestUpdatesOfChildren(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetQuietly("file:///dir", "listing")
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.subscribe(c, "file:///dir")
		docs.SetQuietly("file:///dir/x", "x")
		docs.NotifyUpdated("file:///dir/x")
		w.advance(5 * time.Second)
		if got := received(c); got != "file:///dir" {
			w.Errorf("received %q", got)
		}
	})
}

// After a rejected subscription, retries are delayed.
func TestRejectedSubscriptionBacksOff(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetQuietly("file:///a", "old")
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }))
		docs.Fail(sessiontest.Fault{Method: "resources/subscribe", Code: -32000, Message: "no"})
		docs.FailAck(sessiontest.AckFault{Hide: []string{"file:///a"}})
		asked := func() int { return docs.Count("resources/subscribe") + docs.Count("subscriptions/listen") }
		before := asked()
		c := w.client(era)
		w.subscribe(c, "file:///a")
		w.advance(time.Hour)
		if n := asked() - before; n < 3 || n > 60 {
			w.Errorf("asked %d times within an hour", n)
		}
		docs.Heal()
		docs.FailAck(sessiontest.AckFault{})
		w.advance(15 * time.Minute)
		received(c)
		docs.Set("file:///a", "new")
		w.advance(5 * time.Second)
		if got := received(c); got != "file:///a" {
			w.Errorf("received %q", got)
		}
	})
}

// A resource that clients subscribed to is followed again in the next session of its server,
// even if the gateway missed the events that announced the end of the last session.
func TestAdhocSubscriptionsAfterLag(t *testing.T) {
	const lag = 500
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.log = journal.NewMemory(journal.MemoryOptions{Keep: lag, Lag: lag})
		docs := w.Serve("docs", session.EraLegacy)
		docs.SetQuietly("file:///listed", "old")
		more := w.Serve("more", session.EraLegacy)
		more.SetQuietly("file:///x", "text")
		busy, held := make(chan struct{}), make(chan struct{})
		block := func() {}
		var mu sync.Mutex
		w.opts.Changed = func() {
			mu.Lock()
			f := block
			mu.Unlock()
			f()
		}
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }), sessiontest.Entry("more"))
		c := w.client(session.EraLegacy)
		w.subscribe(c, "file:///listed")
		received(c)

		mu.Lock()
		block = sync.OnceFunc(func() { close(busy); <-held })
		mu.Unlock()
		more.SetList(catalog.Tools, tool("two"))
		more.NotifyListChanged(catalog.Tools)
		<-busy
		for range lag {
			if more := w.tracker.Client("more"); more.Subscribe(t.Context(), "file:///x") != nil || more.Unsubscribe(t.Context(), "file:///x") != nil {
				t.Fatal("cannot make events")
			}
		}
		w.SetDown("docs", sessiontest.ErrRefused)
		synctest.Wait()
		w.SetDown("docs", nil)
		w.advance(time.Minute)
		close(held)
		w.advance(time.Minute)
		if got := strings.Join(docs.Subscribed(), " "); got != "file:///listed" {
			t.Errorf("subscribed to %q", got)
		}
		received(c)
		docs.Set("file:///listed", "new")
		w.advance(5 * time.Second)
		if got := received(c); got != "file:///listed" {
			t.Errorf("received %q", got)
		}
	})
}
