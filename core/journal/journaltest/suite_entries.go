package journaltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// decode returns an event as its stored form says.
func decode(t tb, data string) event.Event {
	t.Helper()
	var e event.Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		t.Fatalf("%.100s: %v", data, err)
	}
	return e
}

// entriesAreEvents: entries of events of every type say what the events said.
func entriesAreEvents(t *testing.T, open Open) {
	o := open(t, Options{})
	changed, size := true, int64(12)
	text := "shown on request"
	updated := event.ResourceUpdated{Changed: &changed, Name: "n", MimeType: "text/plain", Size: &size, Digest: digest(1), PreviousDigest: digest(2)}
	shown := updated
	shown.Content, shown.Diff = &text, &text // never part of the log
	payloads := []event.Payload{
		event.ServerState{State: event.Backoff, Previous: event.Ready, Error: "refused", Attempt: 3, RetryIn: event.Milliseconds(1500 * time.Millisecond)},
		event.SubscriptionActive{Resources: event.ResourceSet{Count: 3}, Mode: event.Push, Missing: []string{"a"}},
		event.SubscriptionActive{Resources: event.ResourceSet{Count: 2, URIs: []string{"a", "b"}}},
		updated, shown, event.ResourceUpdated{},
		event.ResourceAdded{Descriptor: event.Descriptor{Name: "n"}}, event.ResourceRemoved{}, event.ResourceChanged{},
		event.ListChanged{List: catalog.Resources, Added: []string{"a"}}, event.ListChanged{List: catalog.Templates, Error: "timeout"},
		event.ListChanged{List: catalog.Prompts, Removed: []string{"a"}}, event.ListChanged{List: catalog.Tools, Changed: []string{"a"}},
		event.ServerEvent{Name: "n", EventID: "e", Size: 2},
		event.ConfigReloaded{Added: []string{"a"}, Duration: event.Milliseconds(time.Second)},
		event.ConfigRejected{Problems: []event.Problem{{Message: "m"}}},
		event.ResourceContent{Size: 1, Digest: digest(3)}, event.PromptContent{Name: "n", Size: 4},
		event.ToolResult{Name: "n", Success: true}, event.SubscriptionsChanged{URIs: []string{"a"}},
	}
	var events, stored []*event.Event
	for i, p := range payloads {
		e := about("docs", uri(i), p)
		e.Cause = event.CauseResync
		e.Exported = []map[string]string{nil, {}, {"a": "mcptrack://server/docs/a", uri(i): uri(i + 1)}}[i%3]
		events = append(events, e)
		bare := *e
		if u, ok := p.(event.ResourceUpdated); ok {
			u.Content, u.Diff = nil, nil
			bare.Payload = u
		}
		stored = append(stored, &bare)
	}
	types := map[event.Type]bool{event.TypeGap: true} // no event of a server
	for _, e := range events {
		types[e.Type()] = true
	}
	for _, want := range event.Types() {
		if !types[want] {
			t.Errorf("no event of type %s is tested", want)
		}
	}
	add(t, o.Log, events...)
	flush(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		entries := readAll(t, o.Log, 0)
		same(t, when, entries, o.Log.Epoch(), 1, stored)
		for i, e := range entries {
			got, _ := e.Event()
			if u, ok := got.Payload.(event.ResourceUpdated); ok { // which this process may still have
				u.Content, u.Diff = nil, nil
				got.Payload = u
			}
			if want := wire(t, e.ID, stored[i]); wire(t, e.ID, &got) != want {
				t.Errorf("%s: the event is\n%s\nwant\n%s", when, wire(t, e.ID, &got), want)
			}
		}
	})
}

func hostile() []string {
	return []string{
		`"quoted" \ and {"id":"x"}`, "line\nfeed\r\nand\ttab", "nul\x00and\x1b[2Jescape\x7f", "\U0001F468\u200d\U0001F469\u200d\U0001F467 emoji",
		"right\u202eleft\u2028\ufeff", "'; DROP TABLE events; --", "a.b.*.> c", "%s%d%", strings.Repeat("long/", 400) + "end",
		" leading and trailing ", "-", "é", "e\u0301", "A", "a",
	}
}

func hostileNames(t *testing.T, open Open) {
	o := open(t, Options{})
	var events []*event.Event
	names := hostile()
	for i, name := range names {
		e := update(name, name, i)
		u := e.Payload.(event.ResourceUpdated)
		u.Name, u.MimeType = name, name
		e.Payload = u
		events = append(events, e)
	}
	for i, name := range []string{"invalid\xff\xfe", "\xed\xa0\x80", "\xff"} {
		events = append(events, update(name, name, i), about(name, "", event.ListChanged{List: catalog.Tools, Added: []string{name, "\x00"}}))
	}
	add(t, o.Log, events...)
	for i, name := range names {
		remember(t, o.Log, name+"'", name, i)
		items := catalog.List{{Key: name, Digest: digest(i)}}
		if err := o.Log.RememberList(journal.ListName{ServerID: name, Kind: catalog.Resources}, items); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		same(t, when, readAll(t, o.Log, 0), o.Log.Epoch(), 1, events)
		all := states(t, o.Log, "")
		for i, name := range names {
			want := fmt.Sprint(i + 1)
			if got := numbers(selected(t, o.Log, journal.Selection{ServerID: name})); got != want {
				t.Errorf("%s: of server %.30q: %s, want %s", when, name, got, want)
			}
			if got := numbers(selected(t, o.Log, journal.Selection{ServerID: name, URI: name})); got != want {
				t.Errorf("%s: of resource %.30q: %s, want %s", when, name, got, want)
			}
			for _, st := range []journal.States{all, states(t, o.Log, name)} {
				if got := st.Resources[journal.ResourceID{ServerID: name, URI: name}].Digest; got != digest(i) {
					t.Errorf("%s: the state of %.30q is %v", when, name, got)
				}
				if got := st.Lists[journal.ListName{ServerID: name, Kind: catalog.Resources}]; len(got) != 1 || got[0].Key != name {
					t.Errorf("%s: the list of %.30q is %v", when, name, got)
				}
			}
			if got := states(t, o.Log, name+"'").Resources; len(got) != 1 || got[journal.ResourceID{ServerID: name + "'", URI: name}].Digest != digest(i) {
				t.Errorf("%s: the states of server %.30q with a quote are %v", when, name, got)
			}
		}
	})
}

// membersNotStored: an event that was appended a short time ago has all its members, also those
// that are not stored.
func membersNotStored(t *testing.T, open Open) {
	o := open(t, Options{})
	text, received := "content", time.Now().Add(-time.Second)
	e := update("docs", "file:///a", 1)
	u := e.Payload.(event.ResourceUpdated)
	u.Text = &text
	e.Payload, e.Received = u, received
	stored, err := o.Log.Store(within(t), e)
	if err != nil {
		t.Fatal(err)
	}
	followed, err := followTo(within(t), o.Log, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for what, entry := range map[string]journal.Entry{"stored": stored, "read": readAll(t, o.Log, 1)[0], "followed": followed[0]} {
		got, err := entry.Event()
		if err != nil {
			t.Fatal(err)
		}
		p, _ := got.Payload.(event.ResourceUpdated)
		if !entry.Local() || !entry.Received().Equal(received) || !got.Received.Equal(received) || p.Text == nil || *p.Text != text || strings.Contains(string(entry.Data()), text) {
			t.Errorf("%s: local %v, received %v, event %+v", what, entry.Local(), entry.Received(), got)
		}
	}
	if e.ID != "" || e.Seq != 0 {
		t.Errorf("the event that was appended was changed: it has id %q", e.ID)
	}
	if o.reopen(t) {
		entry := readAll(t, o.Log, 1)[0]
		if got, err := entry.Event(); err != nil || entry.Local() || !entry.Received().IsZero() || !got.Received.IsZero() || got.Payload.(event.ResourceUpdated).Text != nil {
			t.Errorf("after a reopen: local %v, event %+v, %v", entry.Local(), got, err)
		}
	}
}

// largeEvents: a list of 10,000 URIs of 1 KiB is stored, as one event or as several that mean the
// same.
func largeEvents(t *testing.T, open Open) {
	o := open(t, Options{})
	var uris []string
	for i := range 10_000 {
		uris = append(uris, fmt.Sprintf("file:///%s/%05d", strings.Repeat("x", 1010), i))
	}
	gone := uris[:100]
	add(t, o.Log, update("docs", uri(1), 1), about("docs", "", event.ListChanged{List: catalog.Resources, Added: uris, Removed: gone}), update("docs", uri(2), 2))
	flush(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		entries := readAll(t, o.Log, 0)
		if err := inOrder(entries, o.Log.Epoch(), 1, len(entries)); err != nil || len(entries) < 3 {
			t.Fatalf("%s: %d entries, %v", when, len(entries), err)
		}
		var added, removed []string
		for _, e := range entries[1 : len(entries)-1] {
			ev, _ := e.Event()
			p, ok := ev.Payload.(event.ListChanged)
			if !ok || ev.ServerID != "docs" || p.List != catalog.Resources {
				t.Fatalf("%s: entry %d is %.200s", when, e.Seq, e.Data())
			}
			added, removed = append(added, p.Added...), append(removed, p.Removed...)
		}
		if !slices.Equal(added, uris) || !slices.Equal(removed, gone) {
			t.Errorf("%s: %d are added and %d removed, want %d and %d", when, len(added), len(removed), len(uris), len(gone))
		}
		for i, e := range map[int]journal.Entry{1: entries[0], 2: entries[len(entries)-1]} {
			if ev, _ := e.Event(); ev.ResourceURI != uri(i) {
				t.Errorf("%s: entry %d is %.200s", when, e.Seq, e.Data())
			}
		}
	})
}

// eventTooLarge: an event that cannot be split is refused where the store has a limit, and does
// not stop the log.
func eventTooLarge(t *testing.T, open Open) {
	o := open(t, Options{})
	huge := func() *event.Event {
		return about("docs", "file:///huge", event.ResourceAdded{Descriptor: event.Descriptor{Name: strings.Repeat("n", 9<<20)}})
	}
	want := []*event.Event{update("docs", uri(1), 1)}
	add(t, o.Log, want[0])
	if e, err := o.Log.Store(within(t), huge()); err == nil {
		want = append(want, huge(), huge())
		if !strings.Contains(string(e.Data()), strings.Repeat("n", 9<<20)) {
			t.Error("the event was stored without its name")
		}
		want[1].Timestamp = decode(t, string(e.Data())).Timestamp
		want[2].Timestamp = want[1].Timestamp
		add(t, o.Log, want[2])
	} else {
		if !errors.Is(err, journal.ErrTooLarge) || len(err.Error()) > 1000 {
			t.Errorf("Store: %.200v, want ErrTooLarge", err)
		}
		add(t, o.Log, huge())
		flush(t, o.Log)
		if n := o.Log.Stats().TooLarge; n != 2 {
			t.Errorf("%d events are counted as too large, want 2", n)
		}
	}
	last := update("docs", uri(2), 2)
	if _, err := o.Log.Store(within(t), last); err != nil {
		t.Fatal(err)
	}
	if err := o.Log.Err(); err != nil {
		t.Errorf("Err: %.200v", err)
	}
	want = append(want, last)
	o.check(t, func(t *testing.T, when string) {
		same(t, when, readAll(t, o.Log, 0), o.Log.Epoch(), 1, want)
	})
}
