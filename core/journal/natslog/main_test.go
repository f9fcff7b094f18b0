package natslog

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testLog shows the messages of a log in the test's.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// onServer are the options of a new log on a server.
func onServer(t testing.TB) Options { return Options{URL: journaltest.Store(t), Replicas: 1} }

func open(t testing.TB, opts Options) *Log {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = testLog(t)
	}
	j, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func closeLog(t testing.TB, j *Log) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// source makes events, each about another content.
type source struct{ seq uint64 }

func newSource() *source { return &source{} }

func (s *source) next(uri string) *event.Event {
	s.seq++
	size := int64(s.seq)
	return &event.Event{
		ServerID: "docs", ResourceURI: uri, Timestamp: time.Now(), Cause: event.CauseNotify,
		Payload: event.ResourceUpdated{Name: fmt.Sprintf("n%d", s.seq), MimeType: "text/plain", Size: &size, Digest: digest(s.seq)},
	}
}

func digest(n uint64) (d catalog.Digest) {
	for i := range 8 {
		d[i] = byte(n >> (8 * i))
	}
	d[31] = 1
	return d
}

func uri(n int) string { return fmt.Sprintf("file:///docs/%d.md", n) }

// appendN appends n events about 100 resources and waits for the last.
func appendN(t testing.TB, j *Log, s *source, n int) journal.Entry {
	t.Helper()
	for i := range n - 1 {
		if err := j.Append(s.next(uri(i % 100))); err != nil {
			t.Fatal(err)
		}
	}
	e, err := j.Store(t.Context(), s.next(uri((n-1)%100)))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// read returns all entries from seq on.
func read(t testing.TB, j *Log, from uint64) []journal.Entry {
	t.Helper()
	var out []journal.Entry
	for e, err := range j.Read(t.Context(), from) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// inOrder fails unless the entries are n1..n with ids that rise by one from first.
func inOrder(t testing.TB, entries []journal.Entry, epoch string, first uint64, n int) {
	t.Helper()
	if len(entries) != n {
		t.Fatalf("%d entries, want %d", len(entries), n)
	}
	for i, e := range entries {
		if e.Gap != nil || e.ID != event.FormatID(epoch, first+uint64(i)) {
			t.Fatalf("entry %d is %s (gap %v), want %s", i, e.ID, e.Gap, event.FormatID(epoch, first+uint64(i)))
		}
	}
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, within time.Duration, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
