package storing

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

func TestFullQueueKeepsTheNewestOfEveryResource(t *testing.T) {
	t.Parallel()
	q := NewQueue[struct{}](100)
	s := new(journaltest.Source)
	const keys, rounds = 150, 40 // more keys than the capacity
	for i := range keys * rounds {
		if err := q.Push(&Item[struct{}]{Event: s.Next(journaltest.URI(i % keys))}); err != nil {
			t.Fatal(err)
		}
		if n, _ := q.Size(); n > 2*keys+100 {
			t.Fatalf("%d items wait: not bounded by the resources", n)
		}
	}
	q.Close()
	var got []*Item[struct{}]
	for group := q.Take(64); group != nil; group = q.Take(64) {
		got = append(got, group...)
	}
	_, folded := q.Size()
	if int(folded)+len(got) != keys*rounds {
		t.Errorf("%d taken and %d folded of %d", len(got), folded, keys*rounds)
	}
	last := map[string]uint64{}
	seq := uint64(0)
	for _, it := range got {
		if it.Event.Seq <= seq {
			t.Fatalf("%d after %d", it.Event.Seq, seq)
		}
		seq = it.Event.Seq
		last[it.Event.ResourceURI] = seq
	}
	for i := range keys {
		if want := uint64(keys*(rounds-1) + i + 1); last[journaltest.URI(i)] != want {
			t.Errorf("the last of %s is %d, want %d", journaltest.URI(i), last[journaltest.URI(i)], want)
		}
	}
	if err := q.Push(&Item[struct{}]{}); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("pushed after close: %v", err)
	}
}

// A caller that waits until nothing waits must not continue while the last events are on their way
// to the disk.
func TestItemsBeingStoredCountAsWaiting(t *testing.T) {
	t.Parallel()
	q := NewQueue[struct{}](100)
	s := new(journaltest.Source)
	for i := range 3 {
		if err := q.Push(&Item[struct{}]{Event: s.Next(journaltest.URI(i))}); err != nil {
			t.Fatal(err)
		}
	}
	q.Close()
	for _, want := range []int{3, 1} { // the second group is of one
		group := q.Take(2)
		if n, _ := q.Size(); n != want || len(group) == 0 {
			t.Errorf("%d are not stored, want %d", n, want)
		}
	}
	q.Stored()
	if n, _ := q.Size(); n != 0 {
		t.Errorf("%d are not stored after Stored", n)
	}
	if group := q.Take(2); group != nil {
		t.Errorf("%d more", len(group))
	}
	if n, _ := q.Size(); n != 0 {
		t.Errorf("%d are not stored at the end", n)
	}
}

func TestMergedEventsAddUp(t *testing.T) {
	t.Parallel()
	yes := true
	updated := func(was, now uint64, changed *bool) *event.Event {
		e := &event.Event{ServerID: "s", ResourceURI: "u", Payload: event.ResourceUpdated{Digest: journaltest.Digest(now), PreviousDigest: journaltest.Digest(was), Changed: changed}}
		return e
	}
	list := func(added, removed, changed []string) *event.Event {
		return &event.Event{ServerID: "s", Payload: event.ListChanged{List: catalog.Resources, Added: added, Removed: removed, Changed: changed}}
	}
	for name, c := range map[string]struct{ older, newer, want event.Payload }{
		"there":      {updated(1, 2, &yes).Payload, updated(2, 3, &yes).Payload, updated(1, 3, &yes).Payload},
		"and back":   {updated(1, 2, &yes).Payload, updated(2, 1, &yes).Payload, updated(1, 1, new(bool)).Payload},
		"lists":      {list([]string{"a", "b"}, []string{"c"}, nil).Payload, list([]string{"c", "d"}, []string{"a"}, []string{"b"}).Payload, list([]string{"b", "d"}, nil, []string{"c"}).Payload},
		"state":      {event.ServerState{State: event.Backoff, Previous: event.Ready}, event.ServerState{State: event.Connecting, Previous: event.Backoff}, event.ServerState{State: event.Connecting, Previous: event.Ready}},
		"undigested": {updated(1, 2, &yes).Payload, event.ResourceUpdated{Name: "n"}, event.ResourceUpdated{Name: "n"}},
	} {
		kept, folded := fold([]*Item[struct{}]{{Event: &event.Event{ServerID: "s", ResourceURI: "u", Payload: c.older}}, {Event: &event.Event{ServerID: "s", ResourceURI: "u", Payload: c.newer}}})
		if len(kept) != 1 || folded != 1 {
			t.Fatalf("%s: %d kept, %d folded", name, len(kept), folded)
		}
		if diff := cmp.Diff(c.want, kept[0].Event.Payload); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEventsWithoutURIMergeByName(t *testing.T) {
	t.Parallel()
	of := func(p event.Payload) *Item[struct{}] {
		return &Item[struct{}]{Event: &event.Event{ServerID: "s", Payload: p}}
	}
	kept, folded := fold([]*Item[struct{}]{
		of(event.ToolResult{Name: "a"}), of(event.ToolResult{Name: "b"}), of(event.PromptContent{Name: "a"}),
		of(event.ToolResult{Name: "a", Success: true}),
	})
	if len(kept) != 3 || folded != 1 || kept[0].Event.Payload.(event.ToolResult).Name != "b" {
		t.Errorf("%d kept, %d folded", len(kept), folded)
	}
}

func TestTooLargeEventsAreSplit(t *testing.T) {
	t.Parallel()
	const limit = 2000
	var l event.ListChanged
	l.List = catalog.Resources
	for i := range 300 {
		l.Added = append(l.Added, journaltest.URI(i))
		l.Removed = append(l.Removed, journaltest.URI(i+1000))
	}
	l.Changed = []string{journaltest.URI(5000)}
	names := map[string]string{}
	for _, key := range slices.Concat(l.Added, l.Removed[:100]) {
		names[key] = "mcptrack://server/s/" + key
	}
	parts, err := Encode(&event.Event{ServerID: "s", Exported: names, Payload: l}, limit)
	if err != nil || len(parts) < 5 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	sum, named := event.ListChanged{List: catalog.Resources}, map[string]string{}
	for _, p := range parts {
		var e event.Event
		if err := json.Unmarshal(p, &e); err != nil || len(p) > limit {
			t.Fatalf("%d bytes, %v", len(p), err)
		}
		got := e.Payload.(event.ListChanged)
		if maps.Copy(named, e.Exported); e.Exported == nil {
			t.Errorf("%s: the names are missing", p)
		}
		sum.Added, sum.Removed, sum.Changed = append(sum.Added, got.Added...), append(sum.Removed, got.Removed...), append(sum.Changed, got.Changed...)
	}
	if diff := cmp.Diff(names, named); diff != "" {
		t.Errorf("the names of the parts do not add up (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(l, sum); diff != "" {
		t.Errorf("the parts do not add up (-want +got):\n%s", diff)
	}
	var missing []string
	for i := range 300 {
		missing = append(missing, fmt.Sprintf("file:///%d", i))
	}
	parts, err = Encode(&event.Event{ServerID: "s", Payload: event.SubscriptionActive{Resources: 300, Missing: missing}}, limit)
	if err != nil || len(parts) != 1 {
		t.Errorf("%d parts, %v", len(parts), err)
	}
	_, err = Encode(&event.Event{ServerID: string(make([]byte, limit)), Payload: event.ServerState{}}, limit)
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("an event that cannot be split: %v", err)
	}
}

// A withdrawn item is not taken; a taken item is not disturbed.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	q := NewQueue[int](10)
	var items []*Item[int]
	for n := range 4 {
		it := &Item[int]{Note: n, done: make(chan error, 1)}
		if items = append(items, it); q.Push(it) != nil {
			t.Fatal("the queue is closed")
		}
	}
	taken := q.Take(2)
	if n, _ := q.Size(); n != 4 {
		t.Errorf("%d wait, want also those that were taken", n)
	}
	if q.Stored(); len(taken) != 2 {
		t.Fatalf("taken: %v", taken)
	}
	if n, _ := q.Size(); n != 2 {
		t.Errorf("%d wait, want the two that were not taken", n)
	}
	q.withdraw(items[0])
	q.withdraw(items[2])
	if taken[0] != items[0] || taken[1] != items[1] {
		t.Errorf("taken: %v", taken)
	}
	if left := q.Take(2); len(left) != 1 || left[0] != items[3] {
		t.Errorf("left: %v", left)
	}
}

// A list change that is merged into a newer one keeps its names; names in the newer one win.
func TestMergedListsKeepTheirNames(t *testing.T) {
	t.Parallel()
	of := func(names map[string]string, added ...string) *event.Event {
		return &event.Event{ServerID: "s", Exported: names, Payload: event.ListChanged{List: catalog.Tools, Added: added}}
	}
	for _, c := range []struct{ older, newer, want map[string]string }{
		{map[string]string{"a": "s_a", "b": "s_b"}, map[string]string{"b": "t_b", "c": "t_c"}, map[string]string{"a": "s_a", "b": "t_b", "c": "t_c"}},
		{map[string]string{"a": "s_a", "b": "s_b"}, map[string]string{}, map[string]string{"a": "s_a"}},
		{nil, map[string]string{"b": "t_b"}, nil},
		{map[string]string{}, nil, nil},
	} {
		got := merge(of(c.older, "a", "b"), of(c.newer, "b", "c"))
		if diff := cmp.Diff(c.want, got.Exported); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// The versions of merged changes are the digests before the first and after the last, and a part of a
// split event has the versions of its items.
func TestVersionsOfMergedAndSplitLists(t *testing.T) {
	t.Parallel()
	d := func(b byte) catalog.Digest { return catalog.Digest{b} }
	of := func(added, removed, changed []string, versions ...catalog.ItemVersion) *event.Event {
		return &event.Event{ServerID: "s", Payload: event.ListChanged{List: catalog.Tools, Added: added, Removed: removed, Changed: changed, Versions: versions}}
	}
	got := merge(of([]string{"a"}, []string{"b"}, []string{"c"}, catalog.ItemVersion{Key: "a", Digest: d(1)}, catalog.ItemVersion{Key: "b", PreviousDigest: d(2)}, catalog.ItemVersion{Key: "c", Digest: d(4), PreviousDigest: d(3)}),
		of([]string{"b"}, []string{"c"}, []string{"a"}, catalog.ItemVersion{Key: "a", Digest: d(6), PreviousDigest: d(1)}, catalog.ItemVersion{Key: "b", Digest: d(5)}, catalog.ItemVersion{Key: "c", PreviousDigest: d(4)})).Payload.(event.ListChanged)
	want := []catalog.ItemVersion{{Key: "a", Digest: d(6)}, {Key: "b", Digest: d(5), PreviousDigest: d(2)}, {Key: "c", PreviousDigest: d(3)}}
	if diff := cmp.Diff(want, got.Versions); diff != "" {
		t.Error(diff)
	}
	parts, err := Encode(&event.Event{ServerID: "s", Payload: got}, 350)
	if err != nil || len(parts) < 2 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	var all []catalog.ItemVersion
	for _, part := range parts {
		var e event.Event
		if err := json.Unmarshal(part, &e); err != nil {
			t.Fatal(err)
		}
		p := e.Payload.(event.ListChanged)
		for _, v := range p.Versions {
			if !slices.Contains(slices.Concat(p.Added, p.Removed, p.Changed), v.Key) {
				t.Errorf("%s has a version of %s", part, v.Key)
			}
		}
		all = append(all, p.Versions...)
	}
	slices.SortFunc(all, func(a, b catalog.ItemVersion) int { return strings.Compare(a.Key, b.Key) })
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
}
