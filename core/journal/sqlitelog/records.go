package sqlitelog

import (
	"context"
	"sync"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/mcptrack/mcptrack/core/journal"
)

// tables are the records of a log by name, in memory and in the file.
type tables struct {
	mu     sync.Mutex // guards all below
	saved  map[string][]journal.Record
	open   map[string]*journal.RecordTable
	closed bool
}

// load reads all records from the file.
func (t *tables) load(ctx context.Context, l *Log) error {
	t.open = map[string]*journal.RecordTable{}
	return l.reading(ctx, func(f *file, c *sqlite.Conn) error {
		t.saved = map[string][]journal.Record{}
		sums := newChecksum(f.origin)
		return sqlitex.Execute(c, "SELECT name, key, value, revision, sum FROM records", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			name, rec := recordOf(s)
			if sums.record(name, rec) == s.ColumnInt64(4) {
				t.saved[name] = append(t.saved[name], rec)
			}
			return nil
		}})
	})
}

// Records implements [journal.Log].
func (l *Log) Records(name string) journal.Records {
	t := &l.tables
	t.mu.Lock()
	defer t.mu.Unlock()
	table, ok := t.open[name]
	if !ok {
		table = journal.NewRecordTable(t.saved[name], func(ctx context.Context, rec journal.Record) error {
			_, err := l.wait(ctx, &item{Note: note{record: &recordNote{name, rec}}})
			return err
		})
		delete(t.saved, name)
		if t.open[name] = table; t.closed {
			table.Close()
		}
	}
	return table
}

func (t *tables) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, table := range t.open {
		table.Close()
	}
}

func (w *writer) putRecord(rec *recordNote) error {
	put := rec.Record
	if rec.Value == nil {
		s := w.stmts.noRecord
		s.BindText(1, rec.name)
		s.BindText(2, rec.Key)
		if err := do(s); err != nil {
			return err
		}
		put.Key = "" // so that no later record gets its revision
	}
	bindRecord(w.stmts.record, w.sums, rec.name, put)
	return do(w.stmts.record)
}

// recordOf returns the record in a row with the columns name, key, value and revision.
func recordOf(s *sqlite.Stmt) (name string, rec journal.Record) {
	rec = journal.Record{Key: s.ColumnText(1), Revision: uint64(s.ColumnInt64(3))}
	if rec.Key != "" {
		rec.Value = blob(s, 2)
	}
	return s.ColumnText(0), rec
}

// bindRecord binds a record to the insertion of a row.
func bindRecord(s *sqlite.Stmt, sums *checksum, name string, rec journal.Record) {
	s.BindText(1, name)
	s.BindText(2, rec.Key)
	if s.BindNull(3); rec.Value != nil {
		s.BindBytes(3, rec.Value)
	}
	s.BindInt64(4, int64(rec.Revision))
	s.BindInt64(5, sums.record(name, rec))
}

func (c *checksum) record(name string, rec journal.Record) int64 {
	c.begin(int64(rec.Revision))
	c.text(name)
	c.text(rec.Key)
	return c.end(rec.Value)
}
