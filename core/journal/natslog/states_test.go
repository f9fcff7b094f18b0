package natslog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// digests returns the states in a readable form.
func digests(t *testing.T, j *Log) map[string]catalog.Digest {
	t.Helper()
	states, err := j.States(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]catalog.Digest{}
	for r, s := range states.Resources {
		out[r.ServerID+" "+r.URI] = s.Digest
	}
	return out
}

// byKilledProcess stores an event like a process that is killed before it has stored what the event
// tells.
func byKilledProcess(t *testing.T, j *Log, e *event.Event) {
	t.Helper()
	parts, err := storing.Encode(e, j.store.largest())
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range parts {
		if _, err := j.store.js.Publish(t.Context(), j.store.subjects.event(e), data); err != nil {
			t.Fatal(err)
		}
	}
}

// States that were not stored in time are found in the log.
func TestRealStatesOfAKilledRun(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	s := new(journaltest.Source)
	journaltest.AppendN(t, j, s, 150)
	want := digests(t, j)
	for i := range 300 {
		e := s.Next(journaltest.URI(i % 120))
		byKilledProcess(t, j, e)
		want["docs "+e.ResourceURI] = e.Payload.(event.ResourceUpdated).Digest
	}
	gone := s.Next(journaltest.URI(7))
	gone.Payload = event.ResourceRemoved{}
	byKilledProcess(t, j, gone)
	delete(want, "docs "+journaltest.URI(7))
	if diff := cmp.Diff(want, digests(t, j)); diff != "" || len(want) != 119 {
		t.Errorf("%d resources (-want +got):\n%s", len(want), diff)
	}
}

// After events were lost, their numbers are used again. The number in an older state then says
// nothing about them, but its time does.
func TestStateOfAnotherEpoch(t *testing.T) {
	t.Parallel()
	read := time.Now()
	at := position{Seq: 10, Epoch: "a"}
	for name, c := range map[string]struct {
		m     message
		epoch string
		want  bool
	}{
		"the same":                  {message{seq: 10, stored: read.Add(time.Second)}, "a", true},
		"a later one":               {message{seq: 11, stored: read.Add(-time.Second)}, "a", false},
		"a new one of a low number": {message{seq: 6, stored: read.Add(time.Second)}, "b", false},
		"an old one that is left":   {message{seq: 5, stored: read.Add(-time.Second)}, "b", true},
	} {
		if got := at.covers(read, c.m, c.epoch); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The log waits until a list is stored before it stores the first event that changes it.
func TestRealStatesThatWereDeleted(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	if err := j.store.js.DeleteStream(t.Context(), j.store.opts.Stream+"_states"); err != nil {
		t.Fatal(err)
	}
	x := catalog.Item{Key: "x"}
	if err := j.RememberList(tools, catalog.NewList([]catalog.Item{x})); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(changed(event.ListChanged{Added: []string{"y"}}, x, catalog.Item{Key: "y"})); err != nil {
		t.Fatal(err)
	}
	if got := toolsOf(t, j); len(got) != 2 {
		t.Errorf("the stored list is %v", got)
	}
}
