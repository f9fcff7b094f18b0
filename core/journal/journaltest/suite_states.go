package journaltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

func states(t tb, log journal.Log, server string) journal.States {
	t.Helper()
	s, err := log.States(within(t), server)
	if err != nil {
		t.Fatalf("States: %v", err)
	}
	return s
}

// digests returns the stored digests of all resources of a server, by a readable name.
func digests(t tb, log journal.Log, server string) map[string]catalog.Digest {
	t.Helper()
	out := map[string]catalog.Digest{}
	for r, st := range states(t, log, server).Resources {
		out[r.ServerID+" "+r.URI] = st.Digest
	}
	return out
}

func remember(t *testing.T, log journal.Log, server, uri string, n int) {
	t.Helper()
	if err := log.Remember(journal.ResourceID{ServerID: server, URI: uri}, journal.State{Digest: Digest(n), Size: int64(n), When: time.Now()}); err != nil {
		t.Fatalf("Remember: %v", err)
	}
}

func forget(t *testing.T, log journal.Log, server, uri string) {
	t.Helper()
	if err := log.Remember(journal.ResourceID{ServerID: server, URI: uri}, journal.State{}); err != nil {
		t.Fatalf("Remember: %v", err)
	}
}

func rememberList(t *testing.T, log journal.Log, name journal.ListName, l catalog.List) {
	t.Helper()
	if err := log.RememberList(name, l); err != nil {
		t.Fatalf("RememberList: %v", err)
	}
}

// checkDigests fails the test unless the log returns exactly these digests: immediately, after
// everything is stored, and after the log was reopened.
func checkDigests(t *testing.T, o *Opened, want map[string]catalog.Digest) {
	t.Helper()
	equal(t, "while events may wait", want, digests(t, o.Log, ""))
	flush(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		t.Helper()
		equal(t, when, want, digests(t, o.Log, ""))
	})
}

func statesOfEvents(t *testing.T, o *Opened) {
	last := update("docs", "file:///a", 2)
	add(t, o.Log,
		update("docs", "file:///a", 1), last,
		update("docs", "file:///gone", 3), about("docs", "file:///gone", event.ResourceRemoved{}),
		update("docs", "file:///back", 4), about("docs", "file:///back", event.ResourceRemoved{}), update("docs", "file:///back", 5),
		about("docs", "file:///added", event.ResourceAdded{}),
		about("docs", "file:///unread", event.ResourceUpdated{Name: "n"}),
		about("docs", "file:///a", event.ResourceUpdated{Name: "announced, not read"}),
		about("docs", "file:///a", event.ResourceChanged{}),
		about("docs", "file:///read", event.ResourceContent{Digest: Digest(6)}),
		about("docs", "file:///never", event.ResourceRemoved{}),
	)
	checkDigests(t, o, map[string]catalog.Digest{"docs file:///a": Digest(2), "docs file:///back": Digest(5)})
	st := states(t, o.Log, "docs").Resources[journal.ResourceID{ServerID: "docs", URI: "file:///a"}]
	if apart := st.When.Sub(last.Timestamp).Abs(); st.Size != 2 || st.MimeType != "text/plain" || apart > time.Millisecond || st.Text != nil {
		t.Errorf("the state is %+v", st)
	}
}

func statesRemembered(t *testing.T, o *Opened) {
	text := "content"
	want := journal.State{Digest: Digest(1), Size: 7, MimeType: "text/html", When: time.Now(), Text: &text}
	must(t, o.Log.Remember(journal.ResourceID{ServerID: "docs", URI: "file:///a"}, want))
	remember(t, o.Log, "docs", "file:///b", 2)
	remember(t, o.Log, "docs", "file:///b", 3)
	remember(t, o.Log, "docs", "file:///forgotten", 4)
	forget(t, o.Log, "docs", "file:///forgotten")
	forget(t, o.Log, "docs", "file:///never")
	remember(t, o.Log, "docs", "file:///again", 5)
	forget(t, o.Log, "docs", "file:///again")
	remember(t, o.Log, "docs", "file:///again", 6)
	checkDigests(t, o, map[string]catalog.Digest{"docs file:///a": Digest(1), "docs file:///b": Digest(3), "docs file:///again": Digest(6)})
	st := states(t, o.Log, "").Resources[journal.ResourceID{ServerID: "docs", URI: "file:///a"}]
	if apart := st.When.Sub(want.When).Abs(); st.Size != 7 || st.MimeType != "text/html" || apart > time.Millisecond || st.Text != nil {
		t.Errorf("the state is %+v, want %+v without the text", st, want)
	}
	if b := bounds(t, o.Log); b.Last != 0 {
		t.Errorf("there are %d events", b.Last)
	}
}

// Events and remembered states have one common order: the later call determines the state.
func laterStateWins(t *testing.T, o *Opened) {
	for range 3 { // so that a group of any size contains several of each
		remember(t, o.Log, "docs", "event last", 1)
		add(t, o.Log, update("docs", "event last", 2))
		add(t, o.Log, update("docs", "remembered last", 3))
		remember(t, o.Log, "docs", "remembered last", 4)
		add(t, o.Log, update("docs", "forgotten last", 5))
		forget(t, o.Log, "docs", "forgotten last")
		forget(t, o.Log, "docs", "event after forgetting")
		add(t, o.Log, update("docs", "event after forgetting", 6))
		remember(t, o.Log, "docs", "removed last", 7)
		add(t, o.Log, about("docs", "removed last", event.ResourceRemoved{}))
		add(t, o.Log, about("docs", "remembered after removal", event.ResourceRemoved{}))
		remember(t, o.Log, "docs", "remembered after removal", 8)
		remember(t, o.Log, "docs", "event that says nothing last", 9)
		add(t, o.Log, about("docs", "event that says nothing last", event.ResourceUpdated{}))
	}
	want := map[string]catalog.Digest{
		"docs event last": Digest(2), "docs remembered last": Digest(4), "docs event after forgetting": Digest(6),
		"docs remembered after removal": Digest(8), "docs event that says nothing last": Digest(9),
	}
	checkDigests(t, o, want)
	// A call after the log was reopened overrides the states stored before.
	remember(t, o.Log, "docs", "event last", 11)
	add(t, o.Log, update("docs", "remembered last", 12))
	forget(t, o.Log, "docs", "event after forgetting")
	add(t, o.Log, about("docs", "remembered after removal", event.ResourceRemoved{}))
	checkDigests(t, o, map[string]catalog.Digest{
		"docs event last": Digest(11), "docs remembered last": Digest(12), "docs event that says nothing last": Digest(9),
	})
}

func statesOfOneServer(t *testing.T, o *Opened) {
	tools := catalog.List{{Key: "t", Digest: Digest(9)}}
	for i, server := range []string{"docs", "wiki", "doc", "docs.", ""} {
		add(t, o.Log, update(server, "file:///a", i))
		remember(t, o.Log, server, "file:///b", i+10)
		rememberList(t, o.Log, journal.ListName{ServerID: server, Kind: catalog.Tools}, tools)
	}
	o.check(t, func(t *testing.T, when string) {
		for i, server := range []string{"docs", "wiki", "doc", "docs."} {
			want := journal.States{Lists: map[journal.ListName]catalog.List{{ServerID: server, Kind: catalog.Tools}: tools}}
			got := states(t, o.Log, server)
			equal(t, fmt.Sprintf("%s: lists of %q", when, server), want.Lists, got.Lists)
			equal(t, fmt.Sprintf("%s: resources of %q", when, server), map[string]catalog.Digest{server + " file:///a": Digest(i), server + " file:///b": Digest(i + 10)}, digests(t, o.Log, server))
		}
		if got := states(t, o.Log, "none"); len(got.Resources)+len(got.Lists) != 0 {
			t.Errorf("%s: of a server that does not exist: %+v", when, got)
		}
		if got := states(t, o.Log, ""); len(got.Resources) != 10 || len(got.Lists) != 5 {
			t.Errorf("%s: %d resources and %d lists", when, len(got.Resources), len(got.Lists))
		}
	})
}

func statesOutliveEvents(t *testing.T, o *Opened) {
	items := catalog.List{{Key: "t", Digest: Digest(9)}}
	add(t, o.Log, update("old", "file:///event", 1), about("old", "", event.ListChanged{List: catalog.Tools, Items: &items}))
	remember(t, o.Log, "old", "file:///remembered", 2)
	fill(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		want := map[string]catalog.Digest{"old file:///event": Digest(1), "old file:///remembered": Digest(2)}
		equal(t, when, want, digests(t, o.Log, "old"))
		equal(t, when, map[journal.ListName]catalog.List{{ServerID: "old", Kind: catalog.Tools}: items}, states(t, o.Log, "old").Lists)
	})
}

// The last event about a resource determines its state, whichever goroutine appended the event.
func statesOfGoroutines(t *testing.T, o *Opened) {
	const writers, each, resources = 8, 60, 3
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := o.Log.Append(update("docs", URI(i%resources), w*each+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	flush(t, o.Log)
	want := map[string]catalog.Digest{}
	for _, e := range ReadAll(t, o.Log, 0) {
		ev, _ := e.Event()
		want["docs "+ev.ResourceURI] = ev.Payload.(event.ResourceUpdated).Digest
	}
	checkDigests(t, o, want)
}

// list returns a list of n items with raw descriptors, as a server would send them.
func list(n, version int) catalog.List {
	var items []catalog.Item
	for i := range n {
		key := fmt.Sprintf("file:///%s/%05d", strings.Repeat("x", 100), i)
		items = append(items, catalog.Item{Key: key, Digest: Digest(i + version), Raw: json.RawMessage(`{"uri":"` + key + `"}`)})
	}
	return catalog.NewList(items)
}

func first(l catalog.List) (it catalog.Item) {
	if len(l) > 0 {
		it = l[0]
	}
	return it
}

// checkLists fails the test unless the log returns exactly these lists, and only with keys and
// digests.
func checkLists(t *testing.T, o *Opened, want map[journal.ListName]catalog.List) {
	t.Helper()
	o.check(t, func(t *testing.T, when string) {
		t.Helper()
		got := map[journal.ListName]catalog.List{}
		for name, l := range states(t, o.Log, "").Lists {
			got[name] = append(catalog.List{}, l...) // replaces nil by an empty list
		}
		all := map[journal.ListName]catalog.List{}
		for name, l := range want {
			all[name] = journal.StoredList(l)
		}
		for name, l := range all {
			if now, ok := got[name]; !ok || !reflect.DeepEqual(l, now) { // DeepEqual first, because cmp.Diff takes minutes for a long list
				t.Errorf("%s: %v has %d items, and the log knows it: %v, want %d; the first is %+v, want %+v", when, name, len(now), ok, len(l), first(now), first(l))
			}
			delete(got, name)
		}
		if len(got) != 0 {
			t.Errorf("%s: lists that nobody stored: %v", when, slices.Collect(maps.Keys(got)))
		}
	})
}

func lists(t *testing.T, o *Opened) {
	tools, prompts := journal.ListName{ServerID: "docs", Kind: catalog.Tools}, journal.ListName{ServerID: "docs", Kind: catalog.Prompts}
	other, empty := journal.ListName{ServerID: "wiki", Kind: catalog.Tools}, journal.ListName{ServerID: "wiki", Kind: catalog.Templates}
	changed := func(name journal.ListName, items *catalog.List) {
		t.Helper()
		add(t, o.Log, about(name.ServerID, "", event.ListChanged{List: name.Kind, Added: []string{"a"}, Items: items}))
	}
	cursors := journal.ListName{ServerID: "docs", Kind: journal.Cursors} // an internal list, whose items have no digests
	cursor := journal.CursorList(map[string]string{"topic\n\"a\"": "c\x00", "b": ""})
	rememberList(t, o.Log, cursors, cursor)
	one, two, three, four := list(1, 1), list(2, 2), list(3, 3), list(4, 4)
	rememberList(t, o.Log, tools, one)
	changed(tools, &two)
	changed(tools, nil) // loading the new list failed, so the old one is kept
	changed(prompts, &three)
	rememberList(t, o.Log, prompts, four)
	rememberList(t, o.Log, other, two)
	rememberList(t, o.Log, other, three)
	rememberList(t, o.Log, empty, nil)
	checkLists(t, o, map[journal.ListName]catalog.List{tools: two, prompts: four, other: three, empty: nil, cursors: cursor})
	// A shorter list replaces a longer one completely, and the caller may modify its slice after
	// the call.
	reused := list(1, 5)
	rememberList(t, o.Log, prompts, reused)
	reused[0] = catalog.Item{Key: "changed"}
	none := catalog.List{}
	changed(other, &none)
	checkLists(t, o, map[journal.ListName]catalog.List{tools: two, prompts: list(1, 5), other: nil, empty: nil, cursors: cursor})
	if st := states(t, o.Log, ""); len(st.Resources) != 0 {
		t.Errorf("resources: %v", st.Resources)
	}
}

func longList(t *testing.T, o *Opened) {
	name, other := journal.ListName{ServerID: "docs", Kind: catalog.Resources}, journal.ListName{ServerID: "docs", Kind: catalog.Tools}
	long, short := list(6000, 1), list(3, 2) // 1.2 MB, more than one message of NATS
	for n, l := range []catalog.List{long, short, long} {
		add(t, o.Log, about("docs", "", event.ListChanged{List: catalog.Resources, Added: []string{fmt.Sprint(n)}, Items: &l}))
		rememberList(t, o.Log, other, l)
		checkLists(t, o, map[journal.ListName]catalog.List{name: l, other: l})
	}
}
