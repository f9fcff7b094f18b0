package sqlitelog

import (
	"context"
	"encoding/json"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
)

// insertState executes a statement that inserts the state of a resource into the table states.
func insertState(s *sqlite.Stmt, sums *checksum, r journal.ResourceID, st journal.State, seq int64) error {
	at := st.When.UnixMicro()
	return do(s, r.ServerID, r.URI, st.Digest[:], st.Size, st.MimeType, at, seq, sums.state(r.ServerID, r.URI, st.Digest[:], st.Size, st.MimeType, at, seq))
}

func (c *checksum) state(server, uri string, digest []byte, size int64, mime string, at, seq int64) int64 {
	c.begin(size, at, seq)
	c.text(server)
	c.text(uri)
	c.text(mime)
	return c.end(digest)
}

func (b *batch) list(name journal.ListName, list catalog.List) {
	items := make(map[string]catalog.Digest, len(list))
	for _, it := range list {
		items[it.Key] = it.Digest
	}
	data, err := json.Marshal(items)
	if err != nil {
		return // strings can always be encoded
	}
	if b.lists == nil {
		b.lists = map[journal.ListName]listRow{}
	}
	b.lists[name] = listRow{string(data), len(b.rows)}
}

func (c *checksum) list(server, kind string, seq int64, items string) int64 {
	c.begin(seq)
	c.text(server)
	c.text(kind)
	return c.end([]byte(items))
}

// heal removes the damaged rows of the tables states and lists, within the caller's transaction,
// and restores the states of resources from their last events. A resource without a stored state is
// treated as new, and its first read publishes no event, so a change made while mcptrack was not
// running would be missed. Lists cannot be restored, because no stored event contains a whole list.
// lost is true if rows are known to be missing already.
func (l *Log) heal(c *sqlite.Conn, origin string, lost bool) error {
	out := journal.States{Resources: map[journal.ResourceID]journal.State{}, Lists: map[journal.ListName]catalog.List{}}
	states, lists, err := readStates(c, newChecksum(origin), "", out)
	if err != nil || !lost && len(states)+len(lists) == 0 {
		return err
	}
	for _, r := range states {
		if err := run(c, "DELETE FROM states WHERE server = ? AND uri = ?", r.ServerID, r.URI); err != nil {
			return err
		}
	}
	for _, n := range lists {
		if err := run(c, "DELETE FROM lists WHERE server = ? AND kind = ?", n.ServerID, string(n.Kind)); err != nil {
			return err
		}
	}
	learned, err := learn(c, origin, out.Resources)
	if n := len(states) + len(lists); err == nil && n > 0 {
		l.health.Damages.Add(uint64(n))
		l.opts.Logger.Error("stored states are damaged; states of resources are restored from their last events, but changes to lists while mcptrack was not running are missed",
			"resources", len(states), "learned", learned, "lists", len(lists))
	}
	return err
}

// learn stores states from events for resources that are not in known. It returns the number of
// stored states.
func learn(c *sqlite.Conn, origin string, known map[journal.ResourceID]journal.State) (learned int, err error) {
	insert, err := c.Prepare("INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return 0, err
	}
	sc := &scanner{epoch: origin, sums: newChecksum(origin)}
	err = query(c, "SELECT "+eventColumns+" FROM events WHERE type LIKE 'resource.%' ORDER BY seq DESC", func(s *sqlite.Stmt) error {
		e, ok := sc.scan(s)
		if !ok {
			return nil
		}
		ev, err := e.Event()
		if err != nil {
			return nil
		}
		r, st, ok := journal.Known(&ev)
		if _, newer := known[r]; newer || !ok {
			return nil
		}
		if known[r] = st; st.Digest.IsZero() { // the event reports that the resource was removed
			return nil
		}
		learned++
		return insertState(insert, sc.sums, r, st, sc.row.seq)
	})
	return learned, err
}

func (l *Log) States(ctx context.Context, server string) (journal.States, error) {
	if err := l.Flush(ctx); err != nil { // the result must reflect the last appended event
		return journal.States{}, err
	}
	out := journal.States{Resources: map[journal.ResourceID]journal.State{}, Lists: map[journal.ListName]catalog.List{}}
	return out, l.read(ctx, func(f *file, c *sqlite.Conn) error {
		clear(out.Resources)
		clear(out.Lists)
		_, _, err := readStates(c, newChecksum(f.origin), server, out)
		return err
	})
}

// readStates reads the states and lists for one server into out, or for all servers if server is
// empty. It skips damaged rows and returns their keys.
func readStates(c *sqlite.Conn, sums *checksum, server string, out journal.States) (states []journal.ResourceID, lists []journal.ListName, err error) {
	of := "WHERE server = ?"
	args := []any{server}
	if server == "" {
		of, args = "", nil
	}
	err = query(c, "SELECT server, uri, digest, size, mime, at, seq, sum FROM states "+of, func(s *sqlite.Stmt) error {
		var d catalog.Digest
		r := journal.ResourceID{ServerID: s.ColumnText(0), URI: s.ColumnText(1)}
		st := journal.State{Size: s.ColumnInt64(3), MimeType: s.ColumnText(4), When: time.UnixMicro(s.ColumnInt64(5)).UTC()}
		if n := s.ColumnBytes(2, d[:]); n != len(d) || s.ColumnLen(2) != len(d) ||
			sums.state(r.ServerID, r.URI, d[:], st.Size, st.MimeType, s.ColumnInt64(5), s.ColumnInt64(6)) != s.ColumnInt64(7) {
			states = append(states, r)
			return nil
		}
		st.Digest = d
		out.Resources[r] = st
		return nil
	}, args...)
	if err != nil {
		return states, nil, err
	}
	err = query(c, "SELECT server, kind, seq, items, sum FROM lists "+of, func(s *sqlite.Stmt) error {
		name, items := journal.ListName{ServerID: s.ColumnText(0), Kind: catalog.Kind(s.ColumnText(1))}, s.ColumnText(3)
		var digests map[string]catalog.Digest
		if sums.list(name.ServerID, string(name.Kind), s.ColumnInt64(2), items) != s.ColumnInt64(4) || json.Unmarshal([]byte(items), &digests) != nil {
			lists = append(lists, name)
			return nil
		}
		list := make([]catalog.Item, 0, len(digests))
		for key, d := range digests {
			list = append(list, catalog.Item{Key: key, Digest: d})
		}
		out.Lists[name] = catalog.NewList(list)
		return nil
	}, args...)
	return states, lists, err
}

// loadRecords reads all records from the file into memory.
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

// namedRecord is a row of the table records: a record and the name of the collection that contains
// it.
type namedRecord struct {
	name string
	journal.Record
}

func (l *Log) Records(name string) journal.Records { return l.tables.Table(name) }

// erase sets whether the next transaction overwrites the data that it removes from events.db,
// including free pages. That is necessary for records, because they contain secrets. Events contain
// no secrets, so overwriting them would only cost additional writes.
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

// eraseRemoved overwrites the remaining copies of removed records within other pages and in
// events.db-wal. Copies in events.db-wal can be overwritten only while no other process is reading.
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

// rewriteRecords writes all records to new pages, within the caller's transaction.
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
		put.Key = "" // keeps the revision, so that it is never reused
	}
	return do(w.stmts.record, w.sums.recordRow(rec.name, put)...)
}

// recordOf returns the record in a row with the columns name, key, value and revision, and the name
// of its collection.
func recordOf(s *sqlite.Stmt) (name string, rec journal.Record) {
	rec = journal.Record{Key: s.ColumnText(1), Revision: uint64(s.ColumnInt64(3))}
	if rec.Key != "" {
		rec.Value = blob(s, 2)
	}
	return s.ColumnText(0), rec
}

// recordRow returns the column values of a record in the table records, including the checksum.
func (c *checksum) recordRow(name string, rec journal.Record) []any {
	return []any{name, rec.Key, rec.Value, int64(rec.Revision), c.record(name, rec)}
}

func (c *checksum) record(name string, rec journal.Record) int64 {
	c.begin(int64(rec.Revision))
	c.text(name)
	c.text(rec.Key)
	return c.end(rec.Value)
}
