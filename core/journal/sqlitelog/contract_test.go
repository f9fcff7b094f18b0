package sqlitelog

import (
	"log/slog"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

func TestLogKeepsTheContract(t *testing.T) {
	journaltest.Run(t, func(t *testing.T, opts journaltest.Options) journaltest.Opened {
		o := Options{Dir: t.TempDir(), KeepContent: opts.KeepContent, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
		if opts.Few {
			o.RetainBytes = 1 << 20
		}
		open := func() journal.Log {
			l, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			return l
		}
		return journaltest.Opened{Log: open(), Reopen: open, Break: func() func() { return lock(t, o.Dir) }}
	})
}

// lock begins a transaction in the file, as sqlite3 may, so that nothing can be stored until unlock
// is called.
func lock(t *testing.T, dir string) (unlock func()) {
	t.Helper()
	c, err := sqlite.OpenConn(filepath.Join(dir, "events.db"), sqlite.OpenReadWrite)
	if err == nil {
		err = run(c, "BEGIN IMMEDIATE")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
