package sqlitelog

import (
	"os"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// SQLite before 3.51.3 may damage a file in WAL mode that several connections use. The library asks
// for an older one, so go.mod must not.
func TestLibraryIsNewEnough(t *testing.T) {
	t.Parallel()
	c, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = sqlitex.ExecuteTransient(c, "SELECT sqlite_version(), sqlite_source_id()", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		if day := strings.Fields(s.ColumnText(1))[0]; day < "2026-03-13" {
			t.Errorf("SQLite %s of %s", s.ColumnText(0), day)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// With journal.Interval, a transaction with a sync follows one without, even if nothing else is
// appended.
func TestIntervalSyncs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, Options{Dir: dir, Durability: journal.Interval})
	s := new(journaltest.Source)
	synced := func() (at int64) {
		err := l.read(t.Context(), func(_ *file, c *sqlite.Conn) (err error) {
			at, err = number(c, "SELECT synced FROM log")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for range 3 {
		stored := journaltest.AppendN(t, l, s, 1).Stored.UnixMicro() // when its transaction began
		journaltest.Eventually(t, time.Minute, "a sync", func() bool { return synced() > stored })
		last := synced()
		time.Sleep(3 * syncInterval) // real time: nothing must happen, and SQLite waits for a real disk
		if synced() != last {
			t.Error("synced again although nothing was appended")
		}
	}
}

// An unused log is not written.
func TestWriterIsQuiet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, Options{Dir: dir})
	journaltest.AppendN(t, l, new(journaltest.Source), 3)
	stat := func() (size int64, at time.Time) {
		info, err := os.Stat(events(dir) + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size(), info.ModTime()
	}
	size, at := stat()
	time.Sleep(2500 * time.Millisecond) // more than two ticks; real time, as above
	if again, later := stat(); again != size || !later.Equal(at) {
		t.Errorf("%d bytes at %v, then %d at %v", size, at, again, later)
	}
}

// A transaction whose commit failed is not repeated if it is in the file, and is repeated if it is
// not.
func TestTransactionThatCommitted(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]bool{"it is in the file": true, "it is not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, w := idle(t, Options{Dir: t.TempDir()})
			s := new(journaltest.Source)
			group := []*item{{Event: s.Next(journaltest.URI(1))}, {Event: s.Next(journaltest.URI(2))}}
			b := w.gather(&group)
			if in {
				if err := w.commit(b); err != nil {
					t.Fatal(err)
				}
			}
			w.doubt = true
			if err := w.attempt(b); err != nil {
				t.Fatal(err)
			}
			w.stored(b)
			if n, err := number(w.conn, "SELECT count(*) FROM events"); n != 2 || err != nil || w.row.last != 2 || w.doubt {
				t.Errorf("%d events, %v, the last is %d", n, err, w.row.last)
			}
		})
	}
}
