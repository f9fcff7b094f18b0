package sqlitelog

import (
	"context"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// A call of Flush that waits while nothing can be stored ends when the log is closed, even if its
// own context does not end.
func TestFlushEndsWithTheLog(t *testing.T) {
	t.Parallel()
	l := open(t, Options{Dir: t.TempDir(), Drain: 50 * time.Millisecond})
	other, err := sqlite.OpenConn(l.dir.file(), sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := run(other, "BEGIN IMMEDIATE"); err != nil { // the writer cannot store anything from now on
		t.Fatal(err)
	}
	if err := l.Append(new(journaltest.Source).Next(journaltest.URI(1))); err != nil {
		t.Fatal(err)
	}
	flushed := make(chan error, 1)
	go func() { flushed <- l.Flush(context.WithoutCancel(t.Context())) }()
	journaltest.Eventually(t, time.Minute, "the log cannot store anything", func() bool {
		waiting, _ := l.queue.Size()
		return l.Err() != nil && waiting >= 2
	})
	if err := l.Close(); err == nil {
		t.Error("Close did not report the event that was not stored")
	}
	select {
	case err := <-flushed:
		if err == nil {
			t.Error("Flush returned nil although nothing was stored")
		}
	case <-time.After(10 * time.Second):
		t.Error("Flush still waits after the log was closed")
	}
}
