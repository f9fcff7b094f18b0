package journaltest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// decode parses the stored form of an event.
func decode(t tb, data string) event.Event {
	t.Helper()
	var e event.Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		t.Fatalf("%.100s: %v", data, err)
	}
	return e
}

// Entries contain the events that were appended, for every type of event.
func entriesAreEvents(t *testing.T, o *Opened) {
	changed, size := true, int64(12)
	text := "shown on request"
	updated := event.ResourceUpdated{Changed: &changed, Name: "n", MimeType: "text/plain", Size: &size, Digest: Digest(1), PreviousDigest: Digest(2)}
	shown := updated
	shown.Content, shown.Diff = &text, &text // fields that must never be stored
	payloads := []event.Payload{
		event.ServerState{State: event.Backoff, Previous: event.Ready, Error: "refused", Attempt: 3, RetryIn: event.Milliseconds(1500 * time.Millisecond)},
		event.SubscriptionActive{Resources: 3, Mode: event.Push, Missing: []string{"a"}},
		event.SubscriptionActive{Resources: 2, URIs: []string{"a", "b"}},
		updated, shown, event.ResourceUpdated{},
		event.ResourceAdded{Descriptor: event.Descriptor{Name: "n"}}, event.ResourceRemoved{}, event.ResourceChanged{},
		event.ListChanged{List: catalog.Resources, Added: []string{"a"}}, event.ListChanged{List: catalog.Templates, Error: "timeout"},
		event.ListChanged{List: catalog.Prompts, Removed: []string{"a"}}, event.ListChanged{List: catalog.Tools, Changed: []string{"a"}},
		event.ListChanged{List: catalog.Skills, Added: []string{"a"}}, event.SkillAdded{Skill: event.Skill{Name: "n", Files: 1, Size: 2}}, event.SkillRemoved{},
		event.SkillChanged{Skill: event.Skill{Name: "n"}, Frontmatter: true, Added: []event.SkillFile{{URI: "a", Size: 2}}}, event.SkillMismatch{Skill: "a", Reason: "size"},
		event.ServerEvent{Name: "n", EventID: "e", Size: 2},
		event.CardChanged{URL: "u", Fields: []string{"version"}, Version: "2", PreviousVersion: "1", Digest: Digest(1), PreviousDigest: Digest(2)},
		event.LockDrift{Change: event.DriftChanged, Section: "tools", Item: "tool/n", Classes: []event.DriftClass{{ID: "L002", Name: "wording"}}, OldHash: "a", NewHash: "b"},
		event.HookReceived{HookID: "repo", DeliveryID: "1", ContentType: "application/json", Size: 2, Digest: Digest(5)},
		event.WebhookDisabled{Host: "app.example", Format: "standard", Error: "timeout", FailedSince: time.Date(2026, 11, 19, 8, 0, 0, 0, time.UTC)},
		event.ConfigReloaded{Added: []string{"a"}, Duration: event.Milliseconds(time.Second)},
		event.ConfigRejected{Problems: []event.Problem{{Message: "m"}}},
		event.ResourceContent{Size: 1, Digest: Digest(3)}, event.PromptContent{Name: "n", Size: 4},
		event.ToolResult{Name: "n", Success: true}, event.SubscriptionsChanged{URIs: []string{"a"}},
	}
	var events, stored []*event.Event
	for i, p := range payloads {
		e := about("docs", URI(i), p)
		e.Cause = event.CauseResync
		e.Exported = []map[string]string{nil, {}, {"a": "mcptrack://server/docs/a", URI(i): URI(i + 1)}}[i%3]
		events = append(events, e)
		bare := *e
		if u, ok := p.(event.ResourceUpdated); ok {
			u.Content, u.Diff = nil, nil
			bare.Payload = u
		}
		stored = append(stored, &bare)
	}
	types := map[event.Type]bool{event.TypeGap: true} // a gap is not an event from a server
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
		entries := ReadAll(t, o.Log, 0)
		same(t, when, entries, o.Log.Epoch(), 1, stored)
		for i, e := range entries {
			got, _ := e.Event()
			if u, ok := got.Payload.(event.ResourceUpdated); ok { // remove fields that only this process may still have
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

func hostileNames(t *testing.T, o *Opened) {
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
		items := catalog.List{{Key: name, Digest: Digest(i)}}
		rememberList(t, o.Log, journal.ListName{ServerID: name, Kind: catalog.Resources}, items)
	}
	flush(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		same(t, when, ReadAll(t, o.Log, 0), o.Log.Epoch(), 1, events)
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
				if got := st.Resources[journal.ResourceID{ServerID: name, URI: name}].Digest; got != Digest(i) {
					t.Errorf("%s: the state of %.30q is %v", when, name, got)
				}
				if got := st.Lists[journal.ListName{ServerID: name, Kind: catalog.Resources}]; len(got) != 1 || got[0].Key != name {
					t.Errorf("%s: the list of %.30q is %v", when, name, got)
				}
			}
			if got := states(t, o.Log, name+"'").Resources; len(got) != 1 || got[journal.ResourceID{ServerID: name + "'", URI: name}].Digest != Digest(i) {
				t.Errorf("%s: the states of server %.30q with a quote are %v", when, name, got)
			}
		}
	})
}

// A recently appended event still has all its fields, including those that are not stored.
func membersNotStored(t *testing.T, o *Opened) {
	text, received := "content", time.Now().Add(-time.Second)
	e := update("docs", "file:///a", 1)
	u := e.Payload.(event.ResourceUpdated)
	u.Text = &text
	e.Payload, e.Received = u, received
	stored := Append(t, o.Log, e)
	followed, err := followTo(within(t), o.Log, 1, 1)
	must(t, err)
	for what, entry := range map[string]journal.Entry{"stored": stored, "read": ReadAll(t, o.Log, 1)[0], "followed": followed[0]} {
		got, err := entry.Event()
		must(t, err)
		p, _ := got.Payload.(event.ResourceUpdated)
		if !entry.Local() || !entry.Received().Equal(received) || !got.Received.Equal(received) || p.Text == nil || *p.Text != text || strings.Contains(string(entry.Data()), text) {
			t.Errorf("%s: local %v, received %v, event %+v", what, entry.Local(), entry.Received(), got)
		}
	}
	if e.ID != "" || e.Seq != 0 {
		t.Errorf("the event that was appended was changed: it has id %q", e.ID)
	}
	if o.reopen(t) {
		entry := ReadAll(t, o.Log, 1)[0]
		if got, err := entry.Event(); err != nil || entry.Local() || !entry.Received().IsZero() || !got.Received.IsZero() || got.Payload.(event.ResourceUpdated).Text != nil {
			t.Errorf("after a reopen: local %v, event %+v, %v", entry.Local(), got, err)
		}
	}
}

// A change to a list with many long URIs is stored as one event, or as several events with the same
// meaning.
func largeEvents(t *testing.T, o *Opened) {
	var uris []string
	for i := range 4000 { // 4 MB, which both stores split
		uris = append(uris, fmt.Sprintf("file:///%s/%05d", strings.Repeat("x", 1010), i))
	}
	gone := uris[:100]
	add(t, o.Log, update("docs", URI(1), 1), about("docs", "", event.ListChanged{List: catalog.Resources, Added: uris, Removed: gone}), update("docs", URI(2), 2))
	flush(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		entries := ReadAll(t, o.Log, 0)
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
			if ev, _ := e.Event(); ev.ResourceURI != URI(i) {
				t.Errorf("%s: entry %d is %.200s", when, e.Seq, e.Data())
			}
		}
	})
}

// If the store has a size limit, a larger event that cannot be split is rejected. The log continues
// to store other events.
func eventTooLarge(t *testing.T, o *Opened) {
	huge := func() *event.Event {
		return about("docs", "file:///huge", event.ResourceAdded{Descriptor: event.Descriptor{Name: strings.Repeat("n", 9<<20)}})
	}
	want := []*event.Event{update("docs", URI(1), 1)}
	add(t, o.Log, want[0])
	add(t, o.Log, huge())
	flush(t, o.Log)
	if e := ReadAll(t, o.Log, 1)[bounds(t, o.Log).Last-1]; e.Seq == 2 {
		want = append(want, huge(), huge())
		if !strings.Contains(string(e.Data()), strings.Repeat("n", 9<<20)) {
			t.Error("the event was stored without its name")
		}
		want[1].Timestamp = decode(t, string(e.Data())).Timestamp
		want[2].Timestamp = want[1].Timestamp
		add(t, o.Log, want[2])
	} else {
		add(t, o.Log, huge())
		flush(t, o.Log)
		if n := o.Log.Stats().TooLarge; n != 2 {
			t.Errorf("%d events are counted as too large, want 2", n)
		}
	}
	last := update("docs", URI(2), 2)
	Append(t, o.Log, last)
	if err := o.Log.Err(); err != nil {
		t.Errorf("Err: %.200v", err)
	}
	want = append(want, last)
	o.check(t, func(t *testing.T, when string) {
		same(t, when, ReadAll(t, o.Log, 0), o.Log.Epoch(), 1, want)
	})
}

func selected(t tb, log journal.Log, sel journal.Selection) (out []journal.Entry) {
	t.Helper()
	for e, err := range log.Select(within(t), sel) {
		if err == nil {
			err = wellFormed(e)
		}
		if err != nil || e.Gap != nil {
			t.Fatalf("Select(%+v): %s, %v", sel, e.Data(), err)
		}
		out = append(out, e)
	}
	return out
}

func selects(t *testing.T, o *Opened) {
	changed, items := false, catalog.List{{Key: "a", Digest: Digest(1)}}
	add(t, o.Log,
		update("docs", "file:///a", 1),                                                                 // entry 1
		update("docs", "file:///b", 1),                                                                 // entry 2
		update("wiki", "file:///a", 2),                                                                 // entry 3
		about("docs", "file:///a", event.ResourceAdded{}),                                              // entry 4
		about("docs", "file:///a", event.ResourceUpdated{Name: "not read"}),                            // entry 5
		about("docs", "", event.ServerState{State: event.Ready}),                                       // entry 6
		about("", "", event.ConfigReloaded{Added: []string{"wiki"}}),                                   // entry 7
		about("docs", "file:///a", event.ResourceUpdated{Digest: Digest(1), Changed: &changed}),        // entry 8
		about("docs", "file:///a", event.ResourceRemoved{}),                                            // entry 9
		about("docs", "file:///a", event.ResourceChanged{}),                                            // entry 10
		about("docs", "", event.ListChanged{List: catalog.Resources, Removed: []string{"file:///a"}}),  // entry 11
		update("docs", "file:///a", 3),                                                                 // entry 12
		about("docs", "file:///a", event.ResourceContent{Digest: Digest(3)}),                           // entry 13
		about("docs", "", event.ListChanged{List: catalog.Tools, Added: []string{"a"}, Items: &items}), // entry 14
	)
	flush(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		for sel, want := range map[journal.Selection]string{
			{}:                                      "1 2 3 4 5 6 7 8 9 10 11 12 13 14",
			{ServerID: "docs"}:                      "1 2 4 5 6 8 9 10 11 12 13 14",
			{ServerID: "docs", Own: true}:           "6 11 14",
			{ServerID: "wiki", Own: true}:           "none",
			{ServerID: "wiki"}:                      "3",
			{ServerID: "none"}:                      "none",
			{ServerID: "docs", URI: "file:///a"}:    "1 8 9 12",
			{ServerID: "docs", URI: "file:///b"}:    "2",
			{ServerID: "wiki", URI: "file:///a"}:    "3",
			{ServerID: "wiki", URI: "file:///b"}:    "none",
			{ServerID: "docs", URI: "file:///none"}: "none",
		} {
			if got := numbers(selected(t, o.Log, sel)); got != want {
				t.Errorf("%s: Select(%+v) yields %s, want %s", when, sel, got, want)
			}
		}
	})
	for range o.Log.Select(within(t), journal.Selection{}) {
		break // no goroutine may remain after an early break
	}
}

// spread appends events at different times and returns all entries. The timestamps of the events
// are deliberately unordered, because the clocks of servers and of earlier runs may be wrong.
func spread(t tb, log journal.Log) []journal.Entry {
	t.Helper()
	for i, skew := range []time.Duration{0, -10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour, 0, 0} {
		for n := range 3 {
			e := update("docs", URI(n), i)
			e.Timestamp = e.Timestamp.Add(skew)
			add(t, log, e)
		}
		flush(t, log)
		later, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond) // longer than the resolution of the store's clock
		<-later.Done()
		cancel()
	}
	entries := ReadAll(t, log, 0)
	for _, e := range entries {
		if age := time.Since(e.Stored); age < -time.Minute || age > time.Hour {
			t.Fatalf("%d was stored at %v", e.Seq, e.Stored)
		}
	}
	if !entries[0].Stored.Before(entries[len(entries)-1].Stored) {
		t.Fatalf("the first was stored at %v, the last at %v", entries[0].Stored, entries[len(entries)-1].Stored)
	}
	return entries
}

// times returns the times at which the entries were stored, times between them, and times before
// and after all of them.
func times(entries []journal.Entry) (at []time.Time) {
	at = append(at, time.Unix(0, 0), entries[0].Stored.Add(-time.Hour))
	for i, e := range entries {
		at = append(at, e.Stored)
		if i > 0 {
			was := entries[i-1].Stored
			at = append(at, was.Add(e.Stored.Sub(was)/2))
		}
	}
	return append(at, entries[len(entries)-1].Stored.Add(time.Hour))
}

func since(t *testing.T, o *Opened) {
	entries := spread(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		for _, at := range times(entries) {
			want := uint64(len(entries) + 1)
			if i := slices.IndexFunc(entries, func(e journal.Entry) bool { return !e.Stored.Before(at) }); i >= 0 {
				want = entries[i].Seq
			}
			if got, err := o.Log.Since(within(t), at); err != nil || got != want {
				t.Errorf("%s: Since(%v) is %d, %v, want %d", when, at, got, err, want)
			}
		}
	})
}

func selectsAfter(t *testing.T, o *Opened) {
	entries := spread(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		for _, at := range times(entries) {
			for _, sel := range []journal.Selection{{After: at}, {ServerID: "docs", After: at}, {ServerID: "docs", URI: URI(1), After: at}} {
				var want []journal.Entry
				for _, e := range entries {
					if ev, _ := e.Event(); !e.Stored.Before(at) && (sel.URI == "" || ev.ResourceURI == sel.URI) {
						want = append(want, e)
					}
				}
				if got := selected(t, o.Log, sel); numbers(got) != numbers(want) {
					t.Errorf("%s: Select(%+v) yields %s, want %s", when, sel, numbers(got), numbers(want))
				}
			}
		}
	})
}

func resume(t *testing.T, o *Opened) {
	id := func(n uint64) string { return event.FormatID(o.Log.Epoch(), n) }
	if r, err := o.Log.Resume(within(t), id(0)); err != nil || r.Gap != nil || r.From != 1 || r.Next != 1 {
		t.Errorf("an empty log, from its beginning: %+v, %v", r, err)
	}
	if r, err := o.Log.Resume(within(t), ""); err != nil || r.Gap == nil || r.Gap.Reason != journal.ReasonInvalid || r.From != 1 || r.Next != 1 {
		t.Errorf("an empty log, from no id: %+v, %v", r, err)
	}
	addN(t, o.Log, 0, 20)
	foreign := journal.NewEpoch()
	hostile := strings.Repeat("\x1b[2J\r\nid: 9\x00\u202e", 1000)
	o.check(t, func(t *testing.T, when string) {
		for _, c := range []struct {
			id     string
			from   uint64
			reason string
		}{
			{id(0), 1, ""}, {id(1), 2, ""}, {id(15), 16, ""}, {id(20), 21, ""},
			{id(21), 1, journal.ReasonAhead}, {id(1 << 63), 1, journal.ReasonAhead}, {id(1<<64 - 1), 1, journal.ReasonAhead},
			{foreign + "-5", 1, journal.ReasonEpoch}, {foreign + "-0", 1, journal.ReasonEpoch},
			{"", 1, journal.ReasonInvalid}, {"5", 1, journal.ReasonInvalid}, {o.Log.Epoch() + "-", 1, journal.ReasonInvalid},
			{o.Log.Epoch() + "-05", 1, journal.ReasonInvalid}, {o.Log.Epoch() + "--5", 1, journal.ReasonInvalid},
			{id(5) + "\n", 1, journal.ReasonInvalid}, {strings.ToUpper(foreign+"ff") + "-5", 1, journal.ReasonInvalid},
			{strings.Repeat("9", 10<<10), 1, journal.ReasonInvalid}, {hostile, 1, journal.ReasonInvalid}, {id(5) + hostile, 1, journal.ReasonInvalid},
		} {
			r, err := o.Log.Resume(within(t), c.id)
			reason := ""
			if g := r.Gap; g != nil {
				if reason = g.Reason; len(g.From) > 300 || strings.ContainsAny(g.From, "\r\n\x00\x1b\u202e") || g.To != id(r.From-1) {
					t.Errorf("%s: Resume(%.60q): gap %+v", when, c.id, g)
				}
			}
			if err != nil || r.From != c.from || reason != c.reason || r.Next != 21 {
				t.Errorf("%s: Resume(%.60q): %+v with reason %q, %v, want from %d, %q", when, c.id, r, reason, err, c.from, c.reason)
			}
		}
	})
}

// fill appends events until retention has removed the first ones. It returns the bounds of the log.
func fill(t tb, log journal.Log) journal.Bounds {
	t.Helper()
	ctx := within(t)
	for n := 0; ctx.Err() == nil; n += 250 {
		for i := range 250 {
			add(t, log, update("docs", fmt.Sprint("file:///busy/", n+i), n+i))
		}
		flush(t, log)
		if b := bounds(t, log); b.First > 10 {
			return b
		}
	}
	t.Fatalf("no event is gone: %+v", bounds(t, log))
	return journal.Bounds{}
}

func retention(t *testing.T, o *Opened) {
	fill(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		b := bounds(t, o.Log)
		if b.First <= 10 || b.Last <= b.First+10 {
			t.Fatalf("%s: bounds %+v", when, b)
		}
		// The log may remove more events during this test, but then Read and Follow must report a
		// gap.
		check := func(what string, from uint64, entries []journal.Entry, err error) {
			t.Helper()
			if err != nil || len(entries) == 0 || entries[0].Gap == nil {
				t.Fatalf("%s: %s begins with no gap: %v", when, what, err)
			}
			gap := entries[0]
			if err := wellFormed(gap); err != nil {
				t.Errorf("%s: %s: %v", when, what, err)
			}
			if want := (event.Gap{From: event.FormatID(b.Epoch, from-1), To: gap.ID, Reason: journal.ReasonRetention}); *gap.Gap != want || gap.Seq+1 < b.First {
				t.Errorf("%s: %s begins with %+v at %d, want %+v at %d", when, what, *gap.Gap, gap.Seq, want, b.First-1)
			}
			ev, err := gap.Event()
			if got, ok := ev.Payload.(event.Gap); err != nil || !ok || got != *gap.Gap {
				t.Errorf("%s: %s: the gap as an event is %+v, %v", when, what, ev, err)
			}
			rest := slices.DeleteFunc(entries[1:], func(e journal.Entry) bool {
				if e.Again && e.Seq > gap.Seq {
					t.Errorf("%s: %s: %d is not in the gap to %d", when, what, e.Seq, gap.Seq)
				}
				return e.Again
			})
			if err := inOrder(rest, b.Epoch, gap.Seq+1, int(b.Last-gap.Seq)); err != nil {
				t.Errorf("%s: %s: %v", when, what, err)
			}
		}
		for _, from := range []uint64{1, 5, b.First - 1} {
			check(fmt.Sprintf("Read(%d)", from), from, ReadAll(t, o.Log, from), nil)
			entries, err := followTo(within(t), o.Log, from, b.Last)
			check(fmt.Sprintf("Follow(%d)", from), from, entries, err)
		}
		check("Read(0)", 1, ReadAll(t, o.Log, 0), nil)
		if first, err := o.Log.Since(within(t), time.Unix(0, 0)); err != nil || first < b.First {
			t.Errorf("%s: Since the beginning: %d, %v, want %d", when, first, err, b.First)
		}
		if got := selected(t, o.Log, journal.Selection{ServerID: "docs"}); len(got) == 0 || got[0].Seq < b.First || inOrder(got, b.Epoch, got[0].Seq, int(b.Last+1-got[0].Seq)) != nil {
			t.Errorf("%s: Select yields %d entries of %+v", when, len(got), b)
		}
		for id, missed := range map[uint64]bool{0: true, 5: true, b.First - 2: true, b.Last: false} {
			r, err := o.Log.Resume(within(t), event.FormatID(b.Epoch, id))
			switch {
			case err != nil || r.Next != b.Last+1 || missed != (r.Gap != nil) || !missed && r.From != id+1:
				t.Errorf("%s: Resume after %d: %+v, %v", when, id, r, err)
			case missed && (r.From < b.First || *r.Gap != event.Gap{From: event.FormatID(b.Epoch, id), To: event.FormatID(b.Epoch, r.From-1), Reason: journal.ReasonRetention}):
				t.Errorf("%s: Resume after %d: from %d, gap %+v", when, id, r.From, *r.Gap)
			}
		}
	})
	before := bounds(t, o.Log)
	for i := range 5000 {
		add(t, o.Log, update("docs", fmt.Sprint("file:///more/", i), i))
	}
	flush(t, o.Log)
	Eventually(t, patience, "First moves", func() bool { return bounds(t, o.Log).First > before.First })
	if b := bounds(t, o.Log); b.Last != before.Last+5000 || b.Epoch != before.Epoch {
		t.Errorf("bounds %+v after %+v and 5,000 events", b, before)
	}
}
