package sqlitelog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// A caller that stops waiting leaves nothing in memory.
func TestGivingUpLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, Drain: 50 * time.Millisecond})
	unlock := lock(t, dir)
	if err := l.Append(new(journaltest.Source).Next(journaltest.URI(1))); err != nil { // the writer has something to store from now on
		t.Fatal(err)
	}
	journaltest.Eventually(t, time.Minute, "the log cannot store anything", func() bool { return l.Err() != nil })
	for range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
	}
	if n := l.Stats().Waiting; n != 1 {
		t.Errorf("%d items wait, want the event", n)
	}
	unlock()
	if err := l.Flush(t.Context()); err != nil {
		t.Error(err)
	}
}
