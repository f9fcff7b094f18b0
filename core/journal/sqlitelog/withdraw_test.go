package sqlitelog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// A caller that stops waiting leaves nothing in memory: while nothing can be stored, webhooks
// repeatedly try to store their progress.
func TestGivingUpLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, Drain: 50 * time.Millisecond})
	unlock := lock(t, dir)
	if err := l.Append(new(journaltest.Source).Next(journaltest.URI(1))); err != nil { // the writer has something to store from now on
		t.Fatal(err)
	}
	journaltest.Eventually(t, time.Minute, "the log cannot store anything", func() bool { return l.Err() != nil })
	records := l.Records("things")
	for range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := records.Put(ctx, journal.Record{Key: "a", Value: make([]byte, 1<<10)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
	}
	if n := l.Stats().Waiting; n != 1 {
		t.Errorf("%d items wait, want the event", n)
	}
	unlock()
	if _, err := records.Put(t.Context(), journal.Record{Key: "a", Value: []byte("last")}); err != nil {
		t.Error(err)
	}
}
