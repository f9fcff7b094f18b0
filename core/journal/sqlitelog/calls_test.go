package sqlitelog

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/journal"
)

func readCalls(t *testing.T, l *Log, q calls.Query) []calls.Call {
	t.Helper()
	found, err := l.Calls().Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Calls are stored exactly, survive a restart, and are selected by what they are.
func TestCallsAreStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, Durability: journal.Interval})
	want := []calls.Call{
		{Client: "a", Session: "1", ServerID: "docs", Tool: "x", Outcome: calls.OK, Duration: 1500 * time.Microsecond, Bytes: 7},
		{Client: "b", Session: "2", ServerID: "docs", Tool: "y", Outcome: calls.ToolError},
		{Client: "a", Session: "1", ServerID: "web", Tool: "z", Outcome: calls.Error, Code: -32603},
	}
	for _, c := range want {
		l.Calls().Add(c)
	}
	closeLog(t, l) // without waiting for a batch
	reader := open(t, Options{Dir: dir, Existing: true})
	got := readCalls(t, reader, calls.Query{})
	for i := range got {
		if id := got[i].ID; time.Since(got[i].Time()) > time.Minute || i > 0 && id <= want[i-1].ID {
			t.Errorf("id %d", id)
		}
		want[i].ID = got[i].ID
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%v", got)
	}
	for q, n := range map[calls.Query]string{
		{ServerID: "docs"}: "x y", {Client: "a"}: "x z", {Failed: true}: "y z", {Newest: 2}: "y z", {Newest: 1, ServerID: "docs"}: "y",
		{After: got[0].ID}: "y z", {After: got[2].ID}: "", {Client: "nobody"}: "", {Tool: "y"}: "y", {Tool: "z", ServerID: "docs"}: "",
	} {
		var tools []string
		for _, c := range readCalls(t, reader, q) {
			tools = append(tools, c.Tool)
		}
		if strings.Join(tools, " ") != n {
			t.Errorf("%+v selects %v", q, tools)
		}
	}
	l = open(t, Options{Dir: dir, Durability: journal.Interval})
	l.Calls().Add(calls.Call{Tool: "later"})
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := readCalls(t, reader, calls.Query{After: got[2].ID}); len(after) != 1 || after[0].Tool != "later" {
		t.Errorf("%+v", after)
	}
}

// Calls take a share of the bytes, and the oldest are removed first, in more than one transaction.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const limit, n = 1 << 20, 3*minTrim + 10
	l := open(t, Options{Dir: dir, Durability: journal.Interval})
	for i := range n {
		l.Calls().Add(calls.Call{Code: i})
		if i%minTrim == 0 {
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	closeLog(t, l)
	l, w := idle(t, Options{Dir: dir, RetainBytes: limit})
	for round := 0; w.callsOverdue(); round++ {
		if err := w.commit(new(batch)); err != nil || round > 3 {
			t.Fatal(err, round)
		}
	}
	if left := readCalls(t, l, calls.Query{}); len(left) != 1000 || left[0].Code != n-limit/callShare/callBytes-1 {
		t.Errorf("%d calls from %d on", len(left), left[0].Code)
	}
	l.opts.Retain = time.Nanosecond
	for w.callsOverdue() {
		if err := w.commit(new(batch)); err != nil {
			t.Fatal(err)
		}
	}
	if left := readCalls(t, l, calls.Query{}); len(left) != 0 {
		t.Errorf("%d calls are not too old", len(left))
	}
}

// What cannot be stored in time is dropped, so that memory is bounded, and each time the log says so.
func TestCallsThatCannotBeStoredAreDropped(t *testing.T) {
	t.Parallel()
	l, w := idle(t, Options{Dir: t.TempDir()})
	var said bytes.Buffer
	l.opts.Logger = slog.New(slog.NewTextHandler(&said, nil))
	for round := range 2 {
		for range maxWaitingCalls + 3 {
			l.Calls().Add(calls.Call{})
		}
		if n := strings.Count(said.String(), "missing"); l.calls.dropped != 3 || n != round+1 {
			t.Errorf("%d are dropped, and %d warnings", l.calls.dropped, n)
		}
		b := w.gather(new([]*item))
		if err := w.attempt(b); err != nil || len(b.calls) != maxWaitingCalls {
			t.Errorf("%d are stored, %v", len(b.calls), err)
		}
	}
}

// BenchmarkCalls adds and stores calls.
func BenchmarkCalls(b *testing.B) {
	l := open(b, Options{Dir: b.TempDir(), Durability: journal.Interval})
	for n := 0; b.Loop(); n++ {
		l.Calls().Add(calls.Call{Client: "claude-code", Session: "0123abcd", ServerID: "github", Tool: "search_issues", Outcome: calls.OK, Duration: time.Millisecond, Bytes: 500})
		if n%maxWaitingCalls == maxWaitingCalls/2 {
			if err := l.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}
