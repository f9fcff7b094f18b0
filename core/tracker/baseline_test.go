package tracker

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A change while no tracker ran is published: the digests of an earlier tracker are the baseline of
// the next one.
func TestBaselineOfAnEarlierTracker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newWorld(t, Options{})
		docs := first.Serve("docs", session.EraLegacy)
		settledOn(first, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		known := journal.States{Resources: map[journal.ResourceID]journal.State{}}
		for uri, d := range digests(first) {
			known.Resources[journal.ResourceID{ServerID: "docs", URI: uri}] = journal.State{Digest: d}
		}
		first.stop()

		docs.SetQuietly("file:///b.md", "two")
		delete(known.Resources, journal.ResourceID{ServerID: "docs", URI: "file:///c.md"}) // was not published
		second := newWorld(t, Options{Texts: true, Stored: known})
		second.Add("docs", docs)
		second.start(sessiontest.Entry("docs"))
		second.pass(5 * time.Second)
		second.wantUpdates("file:///b.md resync")

		// The next change is compared with the text that was found unchanged.
		docs.Set("file:///a.md", "other")
		second.pass(5 * time.Second)
		all := second.published(event.TypeResourceUpdated)
		last, ok := all[len(all)-1].Payload.(event.ResourceUpdated)
		if !ok || last.PreviousText == nil || last.Text == nil || *last.Text != "other" {
			t.Errorf("%+v", last)
		}
	})
}

// Changes of a list while no tracker ran are published: the lists of an earlier tracker are the
// baseline of the next one.
func TestBaselineListsOfAnEarlierTracker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newWorld(t, Options{})
		docs := first.Serve("docs", session.EraLegacy)
		settledOn(first, docs, "file:///a.md", "file:///b.md")
		st, _ := first.tracker.Snapshot().Server("docs")
		known := journal.States{Lists: map[journal.ListName]catalog.List{}}
		for k, list := range st.Lists {
			known.Lists[journal.ListName{ServerID: "docs", Kind: k}] = journal.StoredList(list)
		}
		first.stop()

		docs.SetQuietly("file:///c.md", "new")
		docs.Remove("file:///a.md")
		second := newWorld(t, Options{Stored: known})
		second.Add("docs", docs)
		second.start(sessiontest.Entry("docs"))
		second.pass(5 * time.Second)
		var got []string
		for _, e := range second.published() {
			switch p := e.Payload.(type) {
			case event.ListChanged:
				got = append(got, fmt.Sprint(p.List, " +", p.Added, " -", p.Removed, " ", e.Cause))
			case event.ResourceAdded, event.ResourceRemoved:
				got = append(got, fmt.Sprint(p.Type(), " ", e.ResourceURI, " ", e.Cause))
			}
		}
		want := []string{"resources +[file:///c.md] -[file:///a.md] resync", "resource.added file:///c.md resync", "resource.removed file:///a.md resync"}
		if !slices.Equal(got, want) {
			t.Errorf("published %q, want %q", got, want)
		}
	})
}

// A list that was compared with what is no longer stored, because the server was taken over meanwhile, is
// neither stored nor published: it is compared again.
func TestTakeOverDuringAComparison(t *testing.T) {
	s := newStore(Options{})
	stored := journal.States{Lists: map[journal.ListName]catalog.List{{ServerID: "docs", Kind: catalog.Tools}: {{Key: "a"}}}}
	_, _, _, _, before := s.versions("docs", catalog.Tools)
	s.takeOver("docs", stored, func() {})
	change := event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Tools, Added: []string{"b"}, Items: &catalog.List{{Key: "b"}}}}
	if s.learnList("docs", catalog.Tools, catalog.List{{Key: "b"}}, true, before) || s.commitList(change, before) {
		t.Error("what was compared with another version was committed")
	}
	_, is, _, another, now := s.versions("docs", catalog.Tools)
	if _, kept := is.Get("a"); !another || !kept {
		t.Errorf("the stored version is %v, and to be compared: %v", is, another)
	}
	if !s.commitList(change, now) {
		t.Error("what was compared after it was not committed")
	}
}
