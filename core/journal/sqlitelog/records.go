package sqlitelog

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/journal"
)

// loadRecords reads all records from the file.
func (l *Log) loadRecords(ctx context.Context) error {
	var saved map[string][]journal.Record
	err := l.read(ctx, func(f *file, c *sqlite.Conn) error {
		saved = map[string][]journal.Record{}
		sums := newChecksum(f.origin)
		return query(c, "SELECT name, key, value, revision, sum FROM records", func(s *sqlite.Stmt) error {
			name, rec := recordOf(s)
			if sums.record(name, rec) == s.ColumnInt64(4) {
				saved[name] = append(saved[name], rec)
			}
			return nil
		})
	})
	l.tables = journal.NewRecordTables(saved, func(ctx context.Context, name string, rec journal.Record) error {
		_, err := l.wait(ctx, &item{Note: func(b *batch) { b.records = append(b.records, namedRecord{name, rec}) }})
		return err
	})
	return err
}

// namedRecord is a row of records.
type namedRecord struct {
	name string
	journal.Record
}

func (l *Log) Records(name string) journal.Records { return l.tables.Table(name) }

// erase chooses whether the next transaction overwrites what it removes from events.db, including
// free pages: records contain secrets. Events contain none, and overwriting them would cost writes.
func (w *writer) erase(on bool) error {
	if on == w.erases {
		return nil
	}
	mode := "off"
	if on {
		mode = "on"
	}
	err := run(w.conn, "PRAGMA secure_delete = "+mode)
	if err == nil {
		w.erases = on
	}
	return err
}

// eraseRemoved overwrites what is left of removed records: copies that SQLite has made within other
// pages, and copies in events.db-wal, which wait while another process reads.
func (w *writer) eraseRemoved() error {
	if w.removed {
		if err := w.erase(true); err != nil {
			return err
		}
		if err := transaction(w.conn, w.rewriteRecords); err != nil {
			return err
		}
		w.removed, w.stale = false, true
	}
	if !w.stale {
		return nil
	}
	w.conn.SetBusyTimeout(0)
	defer w.conn.SetBusyTimeout(busyTimeout)
	busy, err := number(w.conn, "PRAGMA wal_checkpoint(TRUNCATE)")
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy {
		return nil
	}
	w.stale = err != nil || busy != 0
	return err
}

// rewriteRecords writes all records to new pages, in a transaction.
func (w *writer) rewriteRecords() error {
	var kept []namedRecord
	err := query(w.conn, "SELECT name, key, value, revision, sum FROM records ORDER BY name, key", func(s *sqlite.Stmt) error {
		name, rec := recordOf(s)
		if w.sums.record(name, rec) == s.ColumnInt64(4) {
			kept = append(kept, namedRecord{name, rec})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := run(w.conn, "DELETE FROM records"); err != nil {
		return err
	}
	for _, rec := range kept {
		if err := do(w.stmts.record, w.sums.recordRow(rec.name, rec.Record)...); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) putRecord(rec namedRecord) error {
	put := rec.Record
	if rec.Value == nil {
		w.removed = true
		if err := do(w.stmts.noRecord, rec.name, rec.Key); err != nil {
			return err
		}
		put.Key = "" // reserves its revision
	}
	return do(w.stmts.record, w.sums.recordRow(rec.name, put)...)
}

// recordOf returns the record in a row with the columns name, key, value and revision.
func recordOf(s *sqlite.Stmt) (name string, rec journal.Record) {
	rec = journal.Record{Key: s.ColumnText(1), Revision: uint64(s.ColumnInt64(3))}
	if rec.Key != "" {
		rec.Value = blob(s, 2)
	}
	return s.ColumnText(0), rec
}

// recordRow returns a row of records.
func (c *checksum) recordRow(name string, rec journal.Record) []any {
	return []any{name, rec.Key, rec.Value, int64(rec.Revision), c.record(name, rec)}
}

func (c *checksum) record(name string, rec journal.Record) int64 {
	c.begin(int64(rec.Revision))
	c.text(name)
	c.text(rec.Key)
	return c.end(rec.Value)
}
