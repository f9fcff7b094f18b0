package natslog

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// changed returns an event about a changed list; items is the whole list after it, if known.
func changed(p event.ListChanged, items ...catalog.Item) *event.Event {
	p.List = catalog.Tools
	if items != nil {
		list := catalog.NewList(items)
		p.Items = &list
	}
	return &event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: p}
}

var tools = journal.ListName{ServerID: "docs", Kind: catalog.Tools}

// toolsOf returns the known tools of docs.
func toolsOf(t *testing.T, j *Log) map[string]catalog.Digest {
	t.Helper()
	states, err := j.States(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	one, err := j.States(t.Context(), "docs")
	if err != nil || !cmp.Equal(one.Lists[tools], states.Lists[tools]) {
		t.Errorf("of one server: %v, %v", one, err)
	}
	list, ok := states.Lists[tools]
	if !ok {
		return nil
	}
	out := map[string]catalog.Digest{}
	for _, it := range list {
		out[it.Key] = it.Digest
	}
	return out
}

// A process was killed between events and the list after them. Its published changes are known, and
// what was added or changed counts as different.
func TestRealChangesOfAListThatWasNotStored(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	byKilledProcess(t, j, changed(event.ListChanged{Added: []string{"x"}}, catalog.Item{Key: "x"}))
	if got := toolsOf(t, j); got != nil {
		t.Errorf("%v is known of a list that was never stored", got)
	}
	of := func(name string, n uint64) catalog.Item {
		return catalog.Item{Key: name, Digest: journaltest.Digest(n)}
	}
	if err := j.Append(changed(event.ListChanged{Added: []string{"b"}}, of("a", 1), of("b", 2), of("c", 3))); err != nil {
		t.Fatal(err)
	}
	if err := j.RememberList(journal.ListName{ServerID: "other", Kind: catalog.Tools}, catalog.List{of("a", 9)}); err != nil {
		t.Fatal(err)
	}
	toolsOf(t, j) // all is stored
	foreign := changed(event.ListChanged{Removed: []string{"c"}}, of("a", 9))
	foreign.ServerID = "other"
	byKilledProcess(t, j, foreign)
	byKilledProcess(t, j, changed(event.ListChanged{Removed: []string{"a"}, Changed: []string{"b"}}, of("b", 5), of("c", 3)))
	byKilledProcess(t, j, changed(event.ListChanged{Added: []string{"d", "e"}}, of("b", 5), of("c", 3), of("d", 6), of("e", 7)))
	byKilledProcess(t, j, changed(event.ListChanged{Removed: []string{"e"}}, of("b", 5), of("c", 3), of("d", 6)))
	byKilledProcess(t, j, changed(event.ListChanged{Removed: []string{"b"}})) // does not tell the list
	want := map[string]catalog.Digest{"b": {}, "c": journaltest.Digest(3), "d": {}}
	if diff := cmp.Diff(want, toolsOf(t, j)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// In a new epoch, numbers say nothing; the list is newer than the first events.
	info, err := j.store.info(t.Context(), j.store.opts.Stream)
	if err != nil {
		t.Fatal(err)
	}
	before := j.Epoch()
	if _, err := j.store.renew(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	j.writer.suspect()
	journaltest.Eventually(t, time.Minute, "the new epoch is known", func() bool { return j.Epoch() != before })
	if diff := cmp.Diff(want, toolsOf(t, j)); diff != "" {
		t.Errorf("in a new epoch (-want +got):\n%s", diff)
	}
	// The next list ends it.
	if err := j.RememberList(tools, catalog.List{of("b", 4)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]catalog.Digest{"b": journaltest.Digest(4)}, toolsOf(t, j)); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
}

// What the holder of a lease remembers is newer than all events before its fence, which another
// process may have stored.
func TestRealNextHolderKnowsMoreThanEventsOfEarlierOnes(t *testing.T) {
	t.Parallel()
	opts := onServer(t)
	one, next := open(t, opts), open(t, opts)
	for range 3 {
		journaltest.Append(t, one, changed(event.ListChanged{Added: []string{"a"}}, catalog.Item{Key: "a", Digest: journaltest.Digest(1)}))
	}
	closeLog(t, one) // without a lease it stores what it knows whenever it comes to it
	l := holder(t, next, time.Minute)
	if err := l.RememberList(tools, catalog.List{{Key: "b", Digest: journaltest.Digest(2)}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]catalog.Digest{"b": journaltest.Digest(2)}, toolsOf(t, next)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A process was killed before it had told everything: the events about the resources of a changed
// list may be missing, and a listed resource that was reported as removed is gone.
func TestRealPendingByKilledProcess(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	resources, pending := journal.ListName{ServerID: "docs", Kind: catalog.Resources}, journal.ListName{ServerID: "docs", Kind: journal.Pending}
	stays, leaves := catalog.Item{Key: "stays", Digest: journaltest.Digest(1)}, catalog.Item{Key: "leaves", Digest: journaltest.Digest(2)}
	err := errors.Join(j.RememberList(resources, catalog.List{leaves, stays}), j.RememberList(pending, nil),
		j.Remember(journal.ResourceID{ServerID: "docs", URI: "stays"}, journal.State{Digest: journaltest.Digest(3), When: time.Now()}))
	if err != nil {
		t.Fatal(err)
	}
	check := func(want journal.States) {
		t.Helper()
		got, err := j.States(t.Context(), "docs")
		if err != nil {
			t.Fatal(err)
		}
		for r, st := range got.Resources {
			got.Resources[r] = journal.State{Digest: st.Digest}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	at := journal.ResourceID{ServerID: "docs", URI: "stays"}
	check(journal.States{Resources: map[journal.ResourceID]journal.State{at: {Digest: journaltest.Digest(3)}}, Lists: map[journal.ListName]catalog.List{resources: {leaves, stays}, pending: nil}})
	left := catalog.List{stays}
	byKilledProcess(t, j, &event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ListChanged{List: catalog.Resources, Removed: []string{"leaves"}, Items: &left, Follows: []string{"leaves"}}})
	byKilledProcess(t, j, &event.Event{ServerID: "docs", ResourceURI: "stays", Timestamp: time.Now(), Payload: event.ResourceRemoved{Missing: true}})
	check(journal.States{Resources: map[journal.ResourceID]journal.State{at: {Digest: catalog.Gone()}}, Lists: map[journal.ListName]catalog.List{resources: {stays}, pending: {{Key: "leaves"}}}})
	// The next process publishes it, and starts another change that it cannot finish.
	journaltest.Append(t, j, &event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ServerState{State: event.Ready}})
	added := catalog.List{leaves, stays}
	err = errors.Join(j.RememberList(pending, nil), j.Remember(at, journal.State{}),
		j.Append(&event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ListChanged{List: catalog.Resources, Added: []string{"leaves"}, Items: &added, Follows: []string{"leaves"}}}))
	if err != nil {
		t.Fatal(err)
	}
	check(journal.States{Lists: map[journal.ListName]catalog.List{resources: {leaves, stays}, pending: {{Key: "leaves"}}}})
}
