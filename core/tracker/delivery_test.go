package tracker

import (
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

// settledOn starts the tracker on docs with the resources and waits for their baseline.
func settledOn(w *world, docs *sessiontest.Fake, uris ...string) {
	w.Helper()
	for _, uri := range uris {
		docs.SetQuietly(uri, "one")
	}
	w.start(sessiontest.Entry("docs"))
	w.pass(3 * time.Second)
	w.wantState("docs", event.Ready)
	w.forget()
}

// Duplicates within the window are one event. A real second change is one trailing event at the end
// of the window. After it, a third change leads again.
func TestPromiseOneEventForOneState(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Set("file:///a.md", "two")
		w.pass(100 * time.Millisecond)
		docs.NotifyUpdated("file:///a.md")
		w.pass(2 * time.Second)
		w.wantUpdates("file:///a.md notify")
		w.pass(2100 * time.Millisecond)
		docs.Set("file:///a.md", "three")
		w.pass(time.Second)
		w.wantUpdates("file:///a.md notify", "file:///a.md notify")
		docs.Set("file:///a.md", "four")
		w.pass(900 * time.Millisecond)
		w.wantUpdates("file:///a.md notify", "file:///a.md notify")
		w.pass(200 * time.Millisecond)
		w.wantUpdates("file:///a.md notify", "file:///a.md notify", "file:///a.md trailing")
		w.pass(time.Minute)
		if n := len(w.published()); n != 3 {
			w.Errorf("%d events:\n%s", n, w.log())
		}
	})
}

// An announced update without a change of content is published with changed: false.
func TestUpdateWithoutChange(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.NotifyUpdated("file:///a.md")
		w.pass(time.Second)
		w.wantUpdates("file:///a.md notify")
		if u := w.published()[0].Payload.(event.ResourceUpdated); u.Changed == nil || *u.Changed {
			w.Errorf("changed is %v, want false", u.Changed)
		}
	})
}

// If a read is slow, the event is published without the digest after the patience; the content is
// published in any case.
func TestSlowRead(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Method: "resources/read", Times: 1, Delay: time.Second})
		docs.Set("file:///a.md", "two")
		w.pass(300 * time.Millisecond)
		w.wantUpdates("file:///a.md notify")
		if u := w.published()[0].Payload.(event.ResourceUpdated); !u.Digest.IsZero() {
			w.Error("the digest is there before the read has answered")
		}
		w.pass(5 * time.Second)
		w.wantUpdates("file:///a.md notify", "file:///a.md trailing")
	})
}

// "read": "none" publishes every announcement immediately and reads nothing.
func TestReadNone(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Read = config.ReadNone }))
		w.pass(3 * time.Second)
		docs.Set("file:///a.md", "two")
		w.pass(0)
		w.wantUpdates("file:///a.md notify")
		docs.Set("file:///a.md", "three")
		w.pass(5 * time.Second)
		w.wantUpdates("file:///a.md notify", "file:///a.md trailing")
		if n := docs.Count("resources/read"); n != 0 {
			w.Errorf("%d reads", n)
		}
	})
}

// The list {a,b} becomes {b,c}: c is followed, a no longer is, and b is never interrupted.
func TestListReplacesTheSet(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.SetQuietly("file:///c.md", "one")
		docs.Remove("file:///a.md") // and announces it
		w.pass(2 * time.Second)
		if subs := docs.Subscribed(); !slices.Equal(subs, []string{"file:///b.md", "file:///c.md"}) {
			w.Errorf("subscribed to %q", subs)
		}
		for _, m := range docs.Wire() {
			if m.Method == "resources/unsubscribe" && string(m.Params) == `{"uri":"file:///b.md"}` {
				w.Error("b was unsubscribed from")
			}
		}
		lists := w.published(event.TypeResourcesListChanged)
		if len(lists) != 1 {
			w.Fatalf("want one list change:\n%s", w.log())
		}
		p := lists[0].Payload.(event.ListChanged)
		if fmt.Sprint(p.Added, p.Removed, p.Changed) != "[file:///c.md] [file:///a.md] []" {
			w.Errorf("%+v", p)
		}
		if len(w.published(event.TypeResourceAdded)) != 1 || len(w.published(event.TypeResourceRemoved)) != 1 {
			w.Errorf("want one added and one removed:\n%s", w.log())
		}
		w.wantUpdates()
		docs.Set("file:///c.md", "two")
		w.pass(time.Second)
		w.wantUpdates("file:///c.md notify")
	})
}

// If a page fails, the old set stays complete, and the failure is published.
func TestFailingPageKeepsTheList(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.PageSize = 2
		settledOn(w, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		docs.Fail(sessiontest.Fault{Method: "resources/list", Page: 2, Times: 1, Code: -32603, Message: "disk on fire"})
		docs.SetQuietly("file:///d.md", "one")
		docs.NotifyListChanged(catalog.Resources)
		w.pass(400 * time.Millisecond)
		lists := w.published(event.TypeResourcesListChanged)
		if len(lists) != 1 || lists[0].Payload.(event.ListChanged).Error == "" {
			w.Fatalf("want one list change with an error:\n%s", w.log())
		}
		if n := len(docs.Subscribed()); n != 3 {
			w.Errorf("%d subscriptions, want the first three", n)
		}
		w.pass(5 * time.Second) // retried
		if n := len(docs.Subscribed()); n != 4 {
			w.Errorf("%d subscriptions, want four after the retry", n)
		}
	})
}

// 50 announcements of a changed list cost at most two syncs; an announcement during a sync costs
// one more.
func TestListFlood(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		before := docs.Count("tools/list")
		for range 50 {
			docs.NotifyListChanged(catalog.Tools)
			w.pass(2 * time.Millisecond)
		}
		w.pass(5 * time.Second)
		if n := docs.Count("tools/list") - before; n < 1 || n > 2 {
			w.Errorf("%d syncs for 50 announcements", n)
		}
		before = docs.Count("tools/list")
		docs.Fail(sessiontest.Fault{Method: "tools/list", Times: 1, Delay: time.Second})
		docs.NotifyListChanged(catalog.Tools)
		w.pass(500 * time.Millisecond)
		docs.NotifyListChanged(catalog.Tools)
		w.pass(5 * time.Second)
		if n := docs.Count("tools/list") - before; n != 2 {
			w.Errorf("%d syncs, want one more for the announcement during the first", n)
		}
	})
}

// A server that announces changed lists incessantly is listed twice a second, and the last change
// is not missed.
func TestListFloodWithoutEnd(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		w.pass(2 * time.Second)
		tools, resources := docs.Count("tools/list"), docs.Count("resources/list")
		for range 1000 { // for 10 s
			docs.NotifyListChanged(catalog.Tools)
			docs.NotifyListChanged(catalog.Resources)
			w.pass(10 * time.Millisecond)
		}
		docs.SetQuietly("file:///b.md", "one")
		docs.NotifyListChanged(catalog.Resources)
		w.pass(2 * time.Second)
		tools, resources = docs.Count("tools/list")-tools, docs.Count("resources/list")-resources
		if tools < 10 || tools > 26 || resources < 10 || resources > 26 { // in 12 s
			w.Errorf("%d lists of tools and %d of resources in 10 s", tools, resources)
		}
		if n := len(docs.Subscribed()); n != 2 {
			w.Errorf("%d resources are subscribed to, want 2", n)
		}
	})
}

// An update of a sub-resource of a followed URI is published under its own URI, and the parent is
// read.
func TestUpdateOfASubResource(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///dir")
		docs.SetQuietly("file:///dir/new.md", "one")
		docs.SetQuietly("file:///dir", "two")
		docs.NotifyUpdated("file:///dir/new.md")
		w.pass(3 * time.Second)
		got := w.updates()
		if !slices.Contains(got, "file:///dir/new.md notify") || !slices.ContainsFunc(got, func(s string) bool { return s == "file:///dir resync" || s == "file:///dir notify" }) {
			w.Errorf("updates %q", got)
		}
	})
}

// A resource that can no longer be found is removed once, without a storm of reads.
func TestNotFound(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Method: "resources/read", Code: -32002, Message: "Resource not found"})
		before := docs.Count("resources/read")
		docs.NotifyUpdated("file:///a.md")
		w.pass(20 * time.Second)
		if n := len(w.published(event.TypeResourceRemoved)); n != 1 {
			w.Errorf("%d removed events:\n%s", n, w.log())
		}
		if n := docs.Count("resources/read") - before; n > 4 { // each is confirmed by a second one
			w.Errorf("%d reads", n)
		}
		docs.Heal()
		docs.Set("file:///a.md", "back")
		w.pass(3 * time.Second)
		w.wantUpdates("file:///a.md notify")
	})
}

// Notifications are conserved: every one led, was folded, or was about an unknown resource.
func TestCountsAreConserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", "legacy")
		settledOn(w, docs, "file:///a.md", "file:///b.md")
		docs.Flood("file:///a.md", 1000)
		docs.NotifyUpdated("file:///b.md")
		w.pass(10 * time.Second)
		st, _ := w.tracker.Snapshot().Server("docs")
		c := st.Counts
		if c.Signals != 1001 || c.Folded+c.Unknown > c.Signals {
			w.Errorf("%+v", c)
		}
	})
}

// A text that exceeds its limit, or the room that the others leave, is not in events.
func TestTextsInEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Texts: true, MaxText: 100, MaxTexts: 150})
		docs := w.Serve("docs", session.EraLegacy)
		settledOn(w, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		docs.Set("file:///a.md", strings.Repeat("x", 101))
		w.pass(time.Second)
		docs.Set("file:///b.md", strings.Repeat("x", 90))
		w.pass(time.Second)
		docs.Set("file:///c.md", strings.Repeat("x", 90))
		w.pass(time.Second)
		var got []bool
		for _, e := range w.published(event.TypeResourceUpdated) {
			u := e.Payload.(event.ResourceUpdated)
			got = append(got, u.Text != nil)
			if u.Digest.IsZero() || *u.Size < 90 {
				w.Errorf("published %+v", u)
			}
		}
		if len(got) != 3 || got[0] || !got[1] || got[2] {
			w.Errorf("events with their text: %v, want the second of three", got)
		}
	})
}
