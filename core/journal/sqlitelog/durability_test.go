package sqlitelog

import (
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
	l := open(t, Options{Dir: t.TempDir(), Durability: journal.Interval})
	s := new(journaltest.Source)
	for range 3 {
		stored := journaltest.AppendN(t, l, s, 1).Stored.UnixMicro() // when its transaction began
		journaltest.Eventually(t, time.Minute, "a sync", func() (synced bool) {
			err := l.read(t.Context(), func(_ *file, c *sqlite.Conn) error {
				at, err := number(c, "SELECT synced FROM log")
				synced = at > stored
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return synced
		})
	}
}

// An unused log is not written, except that with journal.Interval one sync follows the last event.
func TestUnusedLogIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, durability := range []journal.Durability{journal.Always, journal.Interval} {
		t.Run(string(durability), func(t *testing.T) {
			t.Parallel()
			_, w := idle(t, Options{Dir: t.TempDir(), Durability: durability})
			if err := w.storeGroup(t.Context(), []*item{{Event: new(journaltest.Source).Next(journaltest.URI(1))}}); err != nil {
				t.Fatal(err)
			}
			last := func() int64 { // when the last transaction began
				at, err := number(w.conn, "SELECT synced FROM log")
				if err != nil {
					t.Fatal(err)
				}
				return at
			}
			before := last()
			var after []int64
			for range 3 {
				w.ticked, w.synced = time.Time{}, time.Time{} // everything is due
				w.keep(t.Context())
				after = append(after, last())
			}
			if synced := after[0] != before; synced != (durability == journal.Interval) || after[2] != after[0] {
				t.Errorf("written at %d, and then at %v", before, after)
			}
		})
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
