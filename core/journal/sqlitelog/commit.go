package sqlitelog

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/journal"
)

// statements contains the prepared statements that the writer uses frequently.
type statements struct {
	begin, commit, event, state, noState, list, oldest, trim, text, oldText, dropText, call, trimCalls *sqlite.Stmt
}

func (s *statements) prepare(c *sqlite.Conn) error {
	for _, p := range []struct {
		stmt  **sqlite.Stmt
		query string
	}{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.commit, "COMMIT"},
		{&s.event, "INSERT INTO events (seq, stored, server, uri, type, event) VALUES (?, ?, ?, ?, ?, ?)"},
		{&s.state, "INSERT OR REPLACE INTO states (server, uri, digest, size, mime, at) VALUES (?, ?, ?, ?, ?, ?)"},
		{&s.noState, "DELETE FROM states WHERE server = ? AND uri = ?"},
		{&s.list, "INSERT OR REPLACE INTO lists (server, kind, items) VALUES (?, ?, ?)"},
		{&s.oldest, "SELECT seq, 2 * octet_length(server) + 2 * octet_length(uri) + octet_length(event) FROM events WHERE seq >= ? ORDER BY seq"},
		{&s.trim, "DELETE FROM events WHERE seq < ?"},
		{&s.text, "INSERT INTO contents (n, digest, size, text) VALUES ((SELECT coalesce(max(n), 0) + 1 FROM contents), ?, ?, ?)"},
		{&s.oldText, "SELECT n, size FROM contents ORDER BY n"},
		{&s.dropText, "DELETE FROM contents WHERE n <= ?"},
		{&s.call, "INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"},
		{&s.trimCalls, `DELETE FROM calls WHERE n < min(
			coalesce((SELECT n FROM calls WHERE n > ?1 AND total > ?2 ORDER BY n LIMIT 1), ?1 + 1),
			coalesce((SELECT n FROM calls ORDER BY n LIMIT 1 OFFSET ?3), 1 << 62))`},
	} {
		var err error
		if *p.stmt, err = c.Prepare(p.query); err != nil {
			return err
		}
	}
	return nil
}

// rowBytes is the approximate stored size of an event in addition to its texts: its numbers and its
// entry in the index.
const rowBytes = 48

// commit stores a batch in a single transaction.
func (w *writer) commit(b *batch) error {
	now := time.Now()
	if err := w.durability(now); err != nil {
		return err
	}
	b.stored = max(w.clock, now.UnixMicro()) // does not decrease when the clock is set back
	b.began, b.next = now.UnixMicro(), w.row
	s := w.stmts
	if err := do(s.begin); err != nil {
		return err
	}
	for i := range b.rows {
		if err := w.insert(b, &b.rows[i]); err != nil {
			return err
		}
	}
	if err := w.putRemembered(b); err != nil {
		return err
	}
	if err := w.putTexts(b); err != nil {
		return err
	}
	if err := w.putCalls(b, now); err != nil {
		return err
	}
	if err := w.trim(&b.next, now, max(minTrim, 2*len(b.rows))); err != nil {
		return err
	}
	b.next.synced = b.began
	if err := writeLog(w.conn, b.next); err != nil {
		return err
	}
	if err := do(s.commit); err != nil {
		return err
	}
	w.committed(now)
	return nil
}

func (w *writer) insert(b *batch, r *row) error {
	e := r.event
	b.next.last++
	b.next.bytes += int64(2*len(e.ServerID) + 2*len(e.ResourceURI) + len(r.data) + rowBytes)
	return do(w.stmts.event, b.next.last, b.stored, e.ServerID, e.ResourceURI, string(e.Type()), string(r.data))
}

// durability determines whether the next transaction will be synced to disk.
func (w *writer) durability(now time.Time) error {
	return w.synchronous(w.l.opts.Durability == journal.Always || w.dirty && now.Sub(w.synced) >= syncInterval)
}

func (w *writer) synchronous(full bool) error {
	if full == w.full {
		return nil
	}
	mode := "normal"
	if full {
		mode = "full"
	}
	err := run(w.conn, "PRAGMA synchronous = "+mode)
	if err == nil {
		w.full = full
	}
	return err
}

// committed records whether the last transaction was synced, and schedules the next sync if it was
// not.
func (w *writer) committed(now time.Time) {
	if w.full {
		w.dirty, w.synced = false, now
	} else if !w.dirty {
		w.dirty, w.synced = true, now
		w.late.Reset(syncInterval)
	}
}

func (w *writer) putRemembered(b *batch) error {
	resources := slices.AppendSeq(make([]journal.ResourceID, 0, len(b.states)), maps.Keys(b.states))
	sort.Slice(resources, func(i, j int) bool { // adjacent rows are on the same page
		return cmp.Or(strings.Compare(resources[i].ServerID, resources[j].ServerID), strings.Compare(resources[i].URI, resources[j].URI)) < 0
	})
	for _, r := range resources {
		st := b.states[r]
		var err error
		if st.Digest.IsZero() {
			err = do(w.stmts.noState, r.ServerID, r.URI)
		} else {
			err = do(w.stmts.state, r.ServerID, r.URI, st.Digest[:], st.Size, st.MimeType, st.When.UnixMicro())
		}
		if err != nil {
			return err
		}
	}
	for name, items := range b.lists {
		if err := do(w.stmts.list, name.ServerID, string(name.Kind), items); err != nil {
			return err
		}
	}
	return nil
}

// minTrim is how many old events one transaction may remove if it adds only a few; a larger batch
// may remove twice as many events as it adds. There is a limit because removing a million expired
// events after a long pause must not delay new events.
const minTrim = 4096

// trim removes the oldest events that exceed the retention limits, at most limit of them.
func (w *writer) trim(next *logRow, now time.Time, limit int) error {
	expired := int64(0)
	if now.Sub(w.looked) >= tickInterval {
		w.looked = now
		var err error
		if expired, err = w.expired(now); err != nil {
			return err
		}
	}
	if next.bytes <= w.l.opts.RetainBytes && expired < next.first {
		return nil
	}
	s := w.stmts.oldest
	bind(s, next.first)
	first, bytes := next.last+1, next.bytes
	for ; ; limit-- {
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			bytes = 0
			break
		}
		if seq := s.ColumnInt64(0); limit <= 0 || seq > expired && bytes <= w.l.opts.RetainBytes {
			first = seq
			break
		}
		bytes -= s.ColumnInt64(1) + rowBytes
	}
	if err := s.Reset(); err != nil {
		return err
	}
	next.first, next.bytes = first, max(bytes, 0)
	return do(w.stmts.trim, first)
}

// overdue reports whether there are still events or texts that exceed their limits.
func (w *writer) overdue() bool {
	if w.row.textBytes > w.l.opts.KeepContent || w.callsOverdue() {
		return true
	}
	expired, err := w.expired(time.Now())
	return err != nil || expired >= w.row.first || w.row.bytes > w.l.opts.RetainBytes
}

// expired returns the number of the last event that has exceeded the maximum age, or 0 if there is
// none.
func (w *writer) expired(now time.Time) (int64, error) {
	n, err := firstSince(w.conn, w.row.first, w.row.last, now.Add(-w.l.opts.Retain).UnixMicro())
	return n - 1, err
}
