package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// events yields the payloads as the stored events of one resource.
func events(payloads ...event.Payload) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for i, p := range payloads {
			if !yield(event.Event{ID: event.FormatID("00000000000000ab", uint64(i+1)), Payload: p}, nil) {
				return
			}
		}
	}
}

func updated(digest, previous byte) event.ResourceUpdated {
	p := event.ResourceUpdated{Digest: catalog.Digest{digest}}
	if previous != 0 {
		p.PreviousDigest = catalog.Digest{previous}
	}
	return p
}

func short(versions []Version) (out string) {
	for _, v := range versions {
		_, seq, _ := event.ParseID(v.ID)
		out += fmt.Sprintf("%d:%d ", seq, v.Digest[0])
	}
	return out
}

func TestVersions(t *testing.T) {
	same := false
	unchanged := updated(2, 2)
	unchanged.Changed = &same
	for _, c := range []struct {
		payloads []event.Payload
		most     int
		want     string
	}{
		{nil, 10, ""},
		{[]event.Payload{updated(1, 0)}, 10, "1:1 "},
		{[]event.Payload{updated(2, 1), unchanged, updated(0, 0), updated(3, 2)}, 10, "0:1 1:2 4:3 "},
		{[]event.Payload{updated(2, 1), event.ResourceRemoved{}, updated(2, 0)}, 10, "0:1 1:2 2:0 3:2 "},
		{[]event.Payload{updated(2, 1), updated(3, 2), updated(4, 3), updated(5, 4), updated(6, 5), updated(7, 6)}, 2, "5:6 6:7 "},
	} {
		got, err := Versions(events(c.payloads...), c.most)
		if short(got) != c.want || err != nil {
			t.Errorf("%v: %q, %v; want %q", c.payloads, short(got), err, c.want)
		}
	}
	failing := func(yield func(event.Event, error) bool) { yield(event.Event{}, errors.New("broken")) }
	if _, err := Versions(failing, 10); err == nil {
		t.Error("an error of the log was ignored")
	}
}

func TestPair(t *testing.T) {
	versions, err := Versions(events(updated(2, 1), updated(3, 2), event.ResourceRemoved{}, updated(4, 0), event.ResourceRemoved{}), 10)
	if err != nil {
		t.Fatal(err)
	}
	for ids, want := range map[[2]string]string{
		{}:                              "2:3 4:4 ",
		{"1"}:                           "1:2 4:4 ",
		{"00000000000000ab-1"}:          "1:2 4:4 ",
		{"4", "1"}:                      "4:4 1:2 ",
		{"3"}:                           "", // a removal
		{"9"}:                           "",
		{"-1"}:                          "",
		{"00000000000000ab-1", "\x1b["}: "",
	} {
		var args []string
		for _, id := range ids {
			if id != "" {
				args = append(args, id)
			}
		}
		from, to, err := Pair(versions, args)
		if want == "" {
			if !errors.Is(err, ErrNoVersion) {
				t.Errorf("%q: %v", args, err)
			}
			continue
		}
		if got := short([]Version{from, to}); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", args, got, err, want)
		}
	}
	for _, few := range [][]Version{nil, versions[:1]} {
		if _, _, err := Pair(few, nil); !errors.Is(err, ErrNoVersion) {
			t.Errorf("of %d versions: %v", len(few), err)
		}
	}
}

// Times have three fractional digits, as in events.
func TestVersionJSON(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 37, 25, 120_000_000, time.FixedZone("", 3600))
	for want, v := range map[string]Version{
		`{"id":"a-1","timestamp":"2026-11-20T08:37:25.120Z","serverId":"s","uri":"x://u","removed":true,"text":false}`: {ServerID: "s", URI: "x://u", ID: "a-1", Timestamp: at, Removed: true},
		`{"serverId":"s","uri":"x://u","mimeType":"text/plain","text":true}`:                                           {ServerID: "s", URI: "x://u", MimeType: "text/plain", Text: true},
	} {
		got, err := json.Marshal(v)
		if string(got) != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
		var back Version
		if err := json.Unmarshal(got, &back); err != nil || !back.Timestamp.Equal(v.Timestamp) || back.ID != v.ID || back.Text != v.Text {
			t.Errorf("%s is decoded as %+v, %v", got, back, err)
		}
	}
}
