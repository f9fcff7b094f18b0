package natslog

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// After More, the next entry comes without waiting.
func TestRealMoreIsTrue(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	const n = 1500 // more than one request reads
	journaltest.AppendN(t, j, new(journaltest.Source), n)
	announced := 0
	for e, err := range j.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq == n && e.More {
			t.Error("more after the last")
		}
		if e.More {
			announced++
		}
	}
	if announced == 0 {
		t.Error("no entry announces the next one")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{}, {URL: "nats://127.0.0.1:1", Stream: "a.b"}, {URL: "nats://127.0.0.1:1", Stream: strings.Repeat("a", 65)}, {URL: "nats://127.0.0.1:1", Retain: -1},
		{URL: "nats://user:s3cr3t@127.0.0.1:1/%zz"}, {URL: "nats://user:s3cr3t@127.0.0.1:1"},
	} {
		_, err := Open(t.Context(), o)
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// An event that is larger than the server accepts is appended.
func TestRealTooLargeEventDoesNotStopTheLog(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	s := new(journaltest.Source)
	huge := s.Next(journaltest.URI(1))
	huge.ServerID = strings.Repeat("a", 2<<20)
	if err := errors.Join(j.Append(huge), j.Flush(t.Context())); err != nil || j.Stats().TooLarge != 1 {
		t.Errorf("stored with %v, %+v", err, j.Stats())
	}
	large := s.Next("")
	large.Payload = event.ListChanged{List: catalog.Tools, Added: slices.Repeat([]string{strings.Repeat("a", 300<<10)}, 5)}
	e := journaltest.Append(t, j, large)
	got := journaltest.ReadAll(t, j, 0)
	if len(got) != 2 || got[1].ID != e.ID {
		t.Fatalf("%d entries", len(got))
	}
	added := 0
	for _, part := range got { // each is read as it was stored
		ev, err := part.Event()
		if err != nil {
			t.Fatal(err)
		}
		added += len(ev.Payload.(event.ListChanged).Added)
	}
	if added != 5 {
		t.Errorf("the parts add %d tools", added)
	}
	// What cannot be remembered is dropped, and the rest is stored.
	if err := errors.Join(j.Remember(journal.ResourceID{ServerID: "docs", URI: strings.Repeat("a", 2<<20)}, journal.State{Digest: journaltest.Digest(1)}),
		j.Remember(journal.ResourceID{ServerID: "docs", URI: "file:///b"}, journal.State{Digest: journaltest.Digest(2)})); err != nil {
		t.Fatal(err)
	}
	if states, err := j.States(t.Context(), ""); err != nil || len(states.Resources) != 1 {
		t.Errorf("%d states, %v", len(states.Resources), err)
	}
}
