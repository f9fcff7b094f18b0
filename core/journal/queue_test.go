package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

func TestFullQueueKeepsTheNewestOfEveryResource(t *testing.T) {
	t.Parallel()
	q := newQueue(100)
	s := newSource()
	const keys, rounds = 150, 40 // more keys than the capacity
	for i := range keys * rounds {
		if err := q.push(&item{event: s.next(uri(i % keys))}); err != nil {
			t.Fatal(err)
		}
		if n, _ := q.size(); n > 2*keys+100 {
			t.Fatalf("%d items wait: not bounded by the resources", n)
		}
	}
	waited := &item{event: s.next(uri(0)), done: make(chan outcome, 1)}
	_ = q.push(waited)
	_ = q.push(&item{event: s.next(uri(0))})
	q.close()
	var got []*item
	for group := q.take(64); group != nil; group = q.take(64) {
		got = append(got, group...)
	}
	_, folded := q.size()
	if int(folded)+len(got) != keys*rounds+2 {
		t.Errorf("%d taken and %d folded of %d", len(got), folded, keys*rounds+2)
	}
	if !slices.Contains(got, waited) {
		t.Error("an event that somebody waits for was folded")
	}
	last := map[string]uint64{}
	seq := uint64(0)
	for _, it := range got {
		if it.event.Seq <= seq {
			t.Fatalf("%d after %d", it.event.Seq, seq)
		}
		seq = it.event.Seq
		last[it.event.ResourceURI] = seq
	}
	for i := 1; i < keys; i++ {
		if want := uint64(keys*(rounds-1) + i + 1); last[uri(i)] != want {
			t.Errorf("the last of %s is %d, want %d", uri(i), last[uri(i)], want)
		}
	}
	if err := q.push(waited); !errors.Is(err, ErrClosed) {
		t.Errorf("pushed after close: %v", err)
	}
}

// TestItemsBeingStoredCountAsWaiting: somebody who waits until nothing waits any more must
// not be let go while the last events are on their way to the disk.
func TestItemsBeingStoredCountAsWaiting(t *testing.T) {
	t.Parallel()
	q := newQueue(100)
	s := newSource()
	for i := range 3 {
		if err := q.push(&item{event: s.next(uri(i))}); err != nil {
			t.Fatal(err)
		}
	}
	q.close()
	for _, want := range []int{3, 1} { // the second group is of one
		group := q.take(2)
		if n, _ := q.size(); n != want || len(group) == 0 {
			t.Errorf("%d are not stored, want %d", n, want)
		}
	}
	if group := q.take(2); group != nil {
		t.Errorf("%d more", len(group))
	}
	if n, _ := q.size(); n != 0 {
		t.Errorf("%d are not stored at the end", n)
	}
}

func TestMergedEventsAddUp(t *testing.T) {
	t.Parallel()
	yes := true
	updated := func(was, now uint64, changed *bool) *event.Event {
		e := &event.Event{ServerID: "s", ResourceURI: "u", Payload: event.ResourceUpdated{Digest: digest(now), PreviousDigest: digest(was), Changed: changed}}
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
		kept, folded := fold([]*item{{event: &event.Event{ServerID: "s", ResourceURI: "u", Payload: c.older}}, {event: &event.Event{ServerID: "s", ResourceURI: "u", Payload: c.newer}}})
		if len(kept) != 1 || folded != 1 {
			t.Fatalf("%s: %d kept, %d folded", name, len(kept), folded)
		}
		if diff := cmp.Diff(c.want, kept[0].event.Payload); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEventsWithoutURIMergeByName(t *testing.T) {
	t.Parallel()
	of := func(p event.Payload) *item { return &item{event: &event.Event{ServerID: "s", Payload: p}} }
	kept, folded := fold([]*item{
		of(event.ToolResult{Name: "a"}), of(event.ToolResult{Name: "b"}), of(event.PromptContent{Name: "a"}),
		of(event.ToolResult{Name: "a", Success: true}),
	})
	if len(kept) != 3 || folded != 1 || kept[0].event.Payload.(event.ToolResult).Name != "b" {
		t.Errorf("%d kept, %d folded", len(kept), folded)
	}
}

func TestTooLargeEventsAreSplit(t *testing.T) {
	t.Parallel()
	const limit = 2000
	var l event.ListChanged
	l.List = catalog.Resources
	for i := range 300 {
		l.Added = append(l.Added, uri(i))
		l.Removed = append(l.Removed, uri(i+1000))
	}
	l.Changed = []string{uri(5000)}
	parts, err := encode(&event.Event{ServerID: "s", Payload: l}, limit)
	if err != nil || len(parts) < 5 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	sum := event.ListChanged{List: catalog.Resources}
	for _, p := range parts {
		var e event.Event
		if err := json.Unmarshal(p, &e); err != nil || len(p) > limit {
			t.Fatalf("%d bytes, %v", len(p), err)
		}
		got := e.Payload.(event.ListChanged)
		sum.Added, sum.Removed, sum.Changed = append(sum.Added, got.Added...), append(sum.Removed, got.Removed...), append(sum.Changed, got.Changed...)
	}
	if diff := cmp.Diff(l, sum); diff != "" {
		t.Errorf("the parts do not add up (-want +got):\n%s", diff)
	}
	var missing []string
	for i := range 300 {
		missing = append(missing, fmt.Sprintf("file:///%d", i))
	}
	parts, err = encode(&event.Event{ServerID: "s", Payload: event.SubscriptionActive{Resources: event.ResourceSet{Count: 300}, Missing: missing}}, limit)
	if err != nil || len(parts) != 1 {
		t.Errorf("%d parts, %v", len(parts), err)
	}
	_, err = encode(&event.Event{ServerID: string(make([]byte, limit)), Payload: event.ServerState{}}, limit)
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("an event that cannot be split: %v", err)
	}
}

// TestTooLargeEventDoesNotStopTheLog appends one beyond what the server takes.
func TestTooLargeEventDoesNotStopTheLog(t *testing.T) {
	t.Parallel()
	j := open(t, Options{Dir: t.TempDir()})
	s := newSource()
	huge := s.next(uri(1))
	huge.ServerID = strings.Repeat("a", 9<<20)
	_, err := j.Store(t.Context(), huge)
	if !errors.Is(err, ErrTooLarge) || j.Stats().TooLarge != 1 {
		t.Errorf("stored with %v, %+v", err, j.Stats())
	}
	large := s.next("")
	large.Payload = event.ListChanged{List: catalog.Tools, Added: slices.Repeat([]string{strings.Repeat("a", 1<<20)}, 9)}
	e, err := j.Store(t.Context(), large)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, j, 0); len(got) != 2 || got[1].ID != e.ID {
		t.Errorf("%d entries", len(got))
	}
}
