package tracker

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A touch finds the changes of the resources that its glob matches, with cause hook. It reads nothing
// else, and publishes nothing that did not change.
func TestTouchLeadsToARead(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///repo/a.md", "file:///repo/b.md", "file:///other.md")
		reads := docs.Count(mcp.MethodReadResource)
		docs.SetQuietly("file:///repo/a.md", "two")
		docs.SetQuietly("file:///other.md", "two")
		w.tracker.Touch("docs", "file:///repo/**")
		w.tracker.Touch("other", "**")
		w.pass(2500 * time.Millisecond)
		w.wantUpdates("file:///repo/a.md hook")
		if n := docs.Count(mcp.MethodReadResource) - reads; n != 2 {
			w.Errorf("%d reads", n)
		}
	})
}

// A touch finds resources that are new, because servers that cannot push announce no lists either.
func TestTouchLeadsToAList(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///repo/a.md")
		docs.SetQuietly("file:///repo/new.md", "one")
		w.tracker.Touch("docs", "file:///repo/**")
		w.pass(time.Second)
		if got := w.published(event.TypeResourceAdded); len(got) != 1 || got[0].ResourceURI != "file:///repo/new.md" || got[0].Cause != event.CauseHook {
			w.Errorf("%v", got)
		}
	})
}

// A flood of touches causes one read per window, and the content after the last one is published.
func TestTouchesAreMerged(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		reads, lists := docs.Count(mcp.MethodReadResource), docs.Count(mcp.MethodListResources)
		for i := range 10_000 { // within 10 s
			if i%100 == 0 {
				docs.SetQuietly("file:///a.md", fmt.Sprint("version ", i))
			}
			w.tracker.Touch("docs", "file:///**")
			w.pass(time.Millisecond)
		}
		docs.SetQuietly("file:///a.md", "last")
		w.tracker.Touch("docs", "file:///**")
		w.pass(3 * time.Second)
		if n := docs.Count(mcp.MethodReadResource) - reads; n > 7 {
			w.Errorf("%d reads in 10 s", n)
		}
		if n := docs.Count(mcp.MethodListResources) - lists; n > 3 {
			w.Errorf("%d lists in 10 s", n)
		}
		all := w.published(event.TypeResourceUpdated)
		st, _ := w.tracker.Snapshot().Server("docs")
		content, err := w.tracker.ReadResource(w.Context(), "docs", "file:///a.md")
		if err != nil || len(all) == 0 || all[len(all)-1].Payload.(event.ResourceUpdated).Digest != content.Digest || st.Resources[0].Digest != content.Digest {
			w.Errorf("the last event does not tell the current content: %v\n%s", err, w.log())
		}
	})
}

// A touch of a server that cannot be reached is handled once it is.
func TestTouchWhileDisconnected(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		w.SetDown("docs", sessiontest.ErrRefused)
		w.pass(time.Second)
		docs.SetQuietly("file:///a.md", "two")
		w.tracker.Touch("docs", "**")
		w.SetDown("docs", nil)
		w.pass(time.Minute)
		if got := w.updates(); len(got) != 1 {
			w.Errorf("%q", got)
		}
	})
}

// With "read": "none", a touch is an update of unknown content, once per window. A second window follows if
// the tracker took the first touch before the last one.
func TestTouchWithoutDigests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("file:///b.md", "one")
		entry := sessiontest.Entry("docs")
		entry.Read = config.ReadNone
		w.start(entry)
		w.pass(5 * time.Second)
		for range 100 {
			w.tracker.Touch("docs", "file:///*.md", "[") // an invalid glob has no effect
		}
		w.pass(5 * time.Second)
		got := w.updates()
		slices.Sort(got)
		if each := slices.Compact(slices.Clone(got)); !slices.Equal(each, []string{"file:///a.md hook", "file:///b.md hook"}) || len(got) > 4 {
			w.Errorf("%q", got)
		}
	})
}

// The globs that wait for a server are limited: beyond the limit, all resources are touched.
func TestTouchedIsBounded(t *testing.T) {
	t.Parallel()
	w := touched{wake: make(chan struct{}, 1)}
	for i := range 3 * maxTouched {
		w.add([]string{fmt.Sprint("file:///", i)})
	}
	globs, first := w.take(time.Now())
	if len(globs) > maxTouched+1 || !slices.Contains(globs, "**") || first.IsZero() || w.any() {
		t.Errorf("%d globs", len(globs))
	}
}
