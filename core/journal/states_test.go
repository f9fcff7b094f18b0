package journal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// digests are the states as one wants to read them in a failure.
func digests(t *testing.T, j *Journal) map[string]catalog.Digest {
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

func TestStatesSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	s := newSource()
	remember := func(uri string, n uint64) {
		t.Helper()
		if err := j.Remember(Resource{"docs", uri}, State{Digest: digest(n), Size: 7, MimeType: "text/plain", When: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	remember("file:///quiet", 1001)
	remember("file:///a", 1002)
	_ = j.Append(s.next("file:///a")) // 1
	_ = j.Append(s.next("file:///b")) // 2
	_ = j.Append(s.next("file:///b")) // 3
	remember("file:///b", 1003)
	removed := s.next("file:///gone") // 4
	_ = j.Append(removed)
	removed = s.next("file:///gone")
	removed.Payload = event.ResourceRemoved{}
	_ = j.Append(removed)
	remember("file:///forgotten", 1004)
	remember("file:///forgotten", 0)
	_ = j.Remember(Resource{"docs", "file:///forgotten"}, State{})
	undigested := s.next("file:///b")
	undigested.Payload = event.ResourceUpdated{}
	if _, err := j.Store(t.Context(), undigested); err != nil {
		t.Fatal(err)
	}
	want := map[string]catalog.Digest{
		"docs file:///quiet": digest(1001),
		"docs file:///a":     digest(1),
		"docs file:///b":     digest(1003),
	}
	if diff := cmp.Diff(want, digests(t, j)); diff != "" {
		t.Errorf("before the restart (-want +got):\n%s", diff)
	}
	closeJournal(t, j)
	j = open(t, Options{Dir: dir})
	if diff := cmp.Diff(want, digests(t, j)); diff != "" {
		t.Errorf("after the restart (-want +got):\n%s", diff)
	}
	states, err := j.States(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if st := states.Resources[Resource{"docs", "file:///quiet"}]; st.Size != 7 || st.MimeType != "text/plain" || st.When.IsZero() {
		t.Errorf("the state is %+v", st)
	}
}

// TestStatesOfAKilledRun: states that were not stored in time are found in the log.
func TestStatesOfAKilledRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, out := startChild(t, "append", dir)
	for n := 0; n < 300 && out.Scan(); n++ {
		if n == 299 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for out.Scan() { // what it printed before it died
	}
	_ = cmd.Wait() // killed
	j := open(t, Options{Dir: dir})
	want := map[string]catalog.Digest{}
	for _, e := range read(t, j, 0) {
		ev, err := e.Event()
		if err != nil {
			t.Fatal(err)
		}
		want["docs "+ev.ResourceURI] = ev.Payload.(event.ResourceUpdated).Digest
	}
	if diff := cmp.Diff(want, digests(t, j)); diff != "" || len(want) != 100 {
		t.Errorf("%d resources (-want +got):\n%s", len(want), diff)
	}
}

// TestStatesOutliveTheirEvents: retention of events does not take the states.
func TestStatesOutliveTheirEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, RetainBytes: 32 << 10, Durability: OS})
	s := newSource()
	_ = j.Append(s.next("file:///old"))
	for range 500 {
		_ = j.Append(s.next("file:///busy"))
	}
	closeJournal(t, j)
	j = open(t, Options{Dir: dir, RetainBytes: 32 << 10})
	if b, err := j.Bounds(t.Context()); err != nil || b.First < 2 {
		t.Fatalf("bounds %+v, %v: the event is still there", b, err)
	}
	if got := digests(t, j)["docs file:///old"]; got != digest(1) {
		t.Errorf("the state is %v", got)
	}
}

// TestStateOfAnotherEpoch: after events were lost their numbers are given out again,
// so the number in an older state says nothing about them; the time does.
func TestStateOfAnotherEpoch(t *testing.T) {
	t.Parallel()
	read := time.Now()
	st := stored{Seq: 10, Epoch: "a", When: read}
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
		if got := st.covers(c.m, c.epoch); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
