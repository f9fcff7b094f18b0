package gateway

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// subscribe subscribes a client to lists and to URIs.
func (w *world) subscribe(c *session.Session, uris ...string) session.Ack {
	w.Helper()
	ack, err := c.Subscribe(w.Context(), session.Filter{Tools: true, Prompts: true, Resources: true, URIs: uris})
	if err != nil {
		w.Fatal(err)
	}
	w.pass(time.Second)
	c.Signals().Take() // what the subscription itself raised
	return ack
}

// told is what a client was told since the last look: lists and URIs, sorted.
func told(c *session.Session) string {
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

// Who subscribed is told, within moments, and nobody else; a read after that is fresh.
func TestUpdates(t *testing.T) {
	inEras(t, func(w *world, era session.Era) {
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
		if a, b, c := told(one), told(both), told(none); a != "file:///a" || b != "file:///a" || c != "" {
			w.Errorf("told %q, %q, %q", a, b, c)
		}
		if got, err := one.Read(w.Context(), "file:///a"); err != nil || !strings.Contains(string(got.Raw), "new") {
			w.Errorf("%v", err)
		}
		w.Server("a").Set("file:///shared", "new") // of the other server
		w.Server("b").Set("file:///shared", "new")
		synctest.Wait()
		if a, b := told(one), told(both); a != "" || b != "mcptrack://server/b/file:///shared" {
			w.Errorf("told %q, %q", a, b)
		}
		// What changes within the window is told at its end, and not lost.
		w.Server("a").Set("file:///a", "newer")
		w.pass(10 * time.Second)
		if a := told(one); a != "file:///a" {
			w.Errorf("told %q", a)
		}
	})
}

// What the config does not follow is followed while somebody is subscribed to it:
// resources of templates, and of servers that are not tracked.
func TestSubscribingToWhatIsNotTracked(t *testing.T) {
	inEras(t, func(w *world, era session.Era) {
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
		told(c) // it may have changed before it was followed
		docs.Set("file:///listed", "new")
		docs.NotifyUpdated("note:///2")
		synctest.Wait()
		if got := told(c); got != "file:///listed note:///2" {
			w.Errorf("told %q", got)
		}
		// A new session follows it, too, and what was missed is told.
		w.SetDown("docs", sessiontest.ErrRefused)
		w.pass(time.Second)
		told(c)
		w.SetDown("docs", nil)
		w.pass(time.Minute)
		if got := told(c); got != "file:///listed note:///2" {
			w.Errorf("after a restart: told %q", got)
		}
		docs.Set("file:///listed", "newer")
		w.pass(5 * time.Second)
		if got := told(c); got != "file:///listed" {
			w.Errorf("after a restart: told %q", got)
		}
		// It ends with the last subscriber.
		if err := c.Close(); err != nil {
			w.Fatal(err)
		}
		w.pass(2 * time.Minute)
		if n := len(docs.Subscribed()); n != 0 {
			w.Errorf("still subscribed to %q", docs.Subscribed())
		}
	})
}

// Where nothing would ever come, nobody is told that something will.
func TestNotSubscribable(t *testing.T) {
	inEras(t, func(w *world, era session.Era) {
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

// Where servers cannot push, their resources are polled, and clients are told.
func TestUpdatesOfPolledResources(t *testing.T) {
	inEras(t, func(w *world, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetQuietly("file:///a", "old")
		docs.Capabilities = map[string]any{"resources": map[string]any{}}
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.subscribe(c, "file:///a")
		w.pass(2 * time.Minute)
		told(c)
		docs.SetQuietly("file:///a", "new")
		w.pass(2 * time.Minute)
		if got := told(c); got != "file:///a" {
			w.Errorf("told %q", got)
		}
	})
}

// An update of something below a subscribed resource is an update of it.
func TestUpdatesBelow(t *testing.T) {
	inEras(t, func(w *world, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetQuietly("file:///dir", "listing")
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.subscribe(c, "file:///dir")
		docs.SetQuietly("file:///dir/x", "x")
		docs.NotifyUpdated("file:///dir/x")
		w.pass(5 * time.Second)
		if got := told(c); got != "file:///dir" {
			w.Errorf("told %q", got)
		}
	})
}

// A server that refuses to be subscribed to is not asked all the time.
func TestRefusedSubscription(t *testing.T) {
	inEras(t, func(w *world, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetQuietly("file:///a", "old")
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }))
		docs.Fail(sessiontest.Fault{Method: "resources/subscribe", Code: -32000, Message: "no"})
		docs.FailAck(sessiontest.AckFault{Hide: []string{"file:///a"}})
		asked := func() int { return docs.Count("resources/subscribe") + docs.Count("subscriptions/listen") }
		before := asked()
		c := w.client(era)
		w.subscribe(c, "file:///a")
		w.pass(time.Hour)
		if n := asked() - before; n < 3 || n > 60 {
			w.Errorf("asked %d times within an hour", n)
		}
		docs.Heal()
		docs.FailAck(sessiontest.AckFault{})
		w.pass(15 * time.Minute)
		told(c)
		docs.Set("file:///a", "new")
		w.pass(5 * time.Second)
		if got := told(c); got != "file:///a" {
			w.Errorf("told %q", got)
		}
	})
}
