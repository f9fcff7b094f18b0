package sqlitelog

import (
	"maps"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/journal"
)

// statements contains the prepared statements that the writer uses frequently.
type statements struct {
	begin, commit, event, turn, state, noState, list, oldest, trim, oldTurns, text, oldText, dropText, record, noRecord, call, trimCalls *sqlite.Stmt
}

func (s *statements) prepare(c *sqlite.Conn) error {
	for _, p := range []struct {
		stmt  **sqlite.Stmt
		query string
	}{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.commit, "COMMIT"},
		{&s.event, "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)"},
		{&s.turn, "INSERT OR IGNORE INTO turns VALUES (?)"},
		{&s.state, "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?, ?, ?, ?, ?)"},
		{&s.noState, "DELETE FROM states WHERE server = ? AND uri = ?"},
		{&s.list, "INSERT OR REPLACE INTO lists VALUES (?, ?, ?, ?, ?)"},
		{&s.oldest, "SELECT seq, 2 * octet_length(server) + 2 * octet_length(uri) + octet_length(event) FROM events WHERE seq >= ? ORDER BY seq"},
		{&s.trim, "DELETE FROM events WHERE seq < ?"},
		{&s.oldTurns, "DELETE FROM turns WHERE seq <= ?"},
		{&s.text, "INSERT INTO contents VALUES ((SELECT coalesce(max(n), 0) + 1 FROM contents), ?, ?, ?, ?)"},
		{&s.oldText, "SELECT n, size FROM contents ORDER BY n"},
		{&s.dropText, "DELETE FROM contents WHERE n <= ?"},
		{&s.record, "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)"},
		{&s.noRecord, "DELETE FROM records WHERE name = ? AND key = ?"},
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
	if err := w.erase(len(b.records) > 0); err != nil {
		return err
	}
	var turned bool
	b.stored, turned = w.stamp(now)
	b.began, b.next = now.UnixMicro(), w.row
	s := w.stmts
	if err := do(s.begin); err != nil {
		return err
	}
	if turned && len(b.rows) > 0 {
		if err := do(s.turn, w.row.last+1); err != nil {
			return err
		}
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

// insert inserts the row of an event.
func (w *writer) insert(b *batch, r *row) error {
	e := r.event
	b.next.last++
	kind := string(e.Type())
	w.sums.begin(b.next.last, b.stored)
	w.sums.text(e.ServerID)
	w.sums.text(e.ResourceURI)
	w.sums.text(kind)
	b.next.bytes += int64(2*len(e.ServerID) + 2*len(e.ResourceURI) + len(r.data) + rowBytes)
	return do(w.stmts.event, b.next.last, b.stored, e.ServerID, e.ResourceURI, kind, string(r.data), w.sums.end(r.data))
}

// stamp returns the time, in microseconds, to store with the next events. If the clock was set back
// by less than a minute, it returns the time of the last event, so that stored times do not
// decrease. If the clock was set back further, it returns the current time, and turned is true.
func (w *writer) stamp(now time.Time) (at int64, turned bool) {
	at = now.UnixMicro()
	switch back := time.Duration(w.clock-at) * time.Microsecond; {
	case back <= 0:
		return at, false
	case back < time.Minute:
		return w.clock, false
	}
	return at, true
}

// durability determines whether the next transaction will be synced to disk.
func (w *writer) durability(now time.Time) error {
	switch w.l.opts.Durability {
	case journal.OS:
		return w.synchronous(false)
	case journal.Interval:
		return w.synchronous(w.dirty && now.Sub(w.synced) >= syncInterval)
	}
	return w.synchronous(true)
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
	switch {
	case w.full:
		w.dirty, w.synced = false, now
	case w.l.opts.Durability == journal.Interval && !w.dirty:
		w.dirty, w.synced = true, now
		w.late.Reset(syncInterval)
	}
}

// stateRow is a row to be stored in the table states, and listRow one in the table lists. after is
// the number of events in the batch that come before the state or list.
type stateRow struct {
	journal.State
	after int
}

type listRow struct {
	items string
	after int
}

func (b *batch) state(r journal.ResourceID, st journal.State) {
	if b.states == nil {
		b.states = map[journal.ResourceID]stateRow{}
	}
	b.states[r] = stateRow{st, len(b.rows)}
}

// putRemembered stores the states, lists and records in a batch.
func (w *writer) putRemembered(b *batch) error {
	resources := slices.SortedFunc(maps.Keys(b.states), func(a, b journal.ResourceID) int { // adjacent rows are on the same page
		if c := strings.Compare(a.ServerID, b.ServerID); c != 0 {
			return c
		}
		return strings.Compare(a.URI, b.URI)
	})
	for _, r := range resources {
		st := b.states[r]
		var err error
		if st.Digest.IsZero() {
			err = do(w.stmts.noState, r.ServerID, r.URI)
		} else {
			err = insertState(w.stmts.state, w.sums, r, st.State, w.row.last+int64(st.after))
		}
		if err != nil {
			return err
		}
	}
	for name, list := range b.lists {
		seq := w.row.last + int64(list.after)
		if err := do(w.stmts.list, name.ServerID, string(name.Kind), seq, list.items, w.sums.list(name.ServerID, string(name.Kind), seq, list.items)); err != nil {
			return err
		}
	}
	for _, rec := range b.records {
		if err := w.putRecord(rec); err != nil {
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
	if err := do(w.stmts.trim, first); err != nil {
		return err
	}
	return do(w.stmts.oldTurns, first)
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
	return lastBefore(w.conn, w.row.first, w.row.last, now.Add(-w.l.opts.Retain).UnixMicro())
}

// lastBefore returns the number of the last event in the range from first to last that was stored
// before the time at, in microseconds, or 0 if there is none. Stored times increase except where
// the clock was set back, so it searches each of the ranges in between, from the newest to the
// oldest.
func lastBefore(c *sqlite.Conn, first, last, at int64) (int64, error) {
	oldest, err := number(c, "SELECT stored FROM events WHERE seq >= ? ORDER BY seq LIMIT 1", first)
	if err != nil || last < first {
		return 0, err
	}
	turns, err := turnsOf(c, first, last)
	if err != nil || oldest >= at && len(turns) == 1 {
		return 0, err
	}
	end := last
	for _, turn := range slices.Backward(turns) {
		n, err := firstSince(c, turn, end, at)
		if err != nil {
			return 0, err
		}
		if n > turn {
			return n - 1, nil
		}
		end = turn - 1
	}
	return 0, nil
}
