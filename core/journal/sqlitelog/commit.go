package sqlitelog

import (
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/journal"
)

// statements are those that the writer runs often.
type statements struct {
	begin, commit, event, turn, state, noState, list, oldest, trim, oldTurns, hasText, text, oldText, dropText, record, noRecord *sqlite.Stmt
}

func newStatements() *statements { return new(statements) }

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
		{&s.hasText, "SELECT 1 FROM contents WHERE digest = ?"},
		{&s.text, "INSERT INTO contents VALUES ((SELECT coalesce(max(n), 0) + 1 FROM contents), ?, ?, ?, ?)"},
		{&s.oldText, "SELECT n, size FROM contents ORDER BY n"},
		{&s.dropText, "DELETE FROM contents WHERE n <= ?"},
		{&s.record, "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?)"},
		{&s.noRecord, "DELETE FROM records WHERE name = ? AND key = ?"},
	} {
		var err error
		if *p.stmt, err = c.Prepare(p.query); err != nil {
			return err
		}
	}
	return nil
}

// rowBytes is what an event counts beside its texts: numbers, and its entry in the index.
const rowBytes = 48

// commit stores a batch as one transaction.
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
		s.turn.BindInt64(1, w.row.last+1)
		if err := do(s.turn); err != nil {
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

// insert adds an event.
func (w *writer) insert(b *batch, r *row) error {
	e, s := r.event, w.stmts.event
	b.next.last++
	kind := string(e.Type())
	w.sums.begin(b.next.last, b.stored)
	w.sums.text(e.ServerID)
	w.sums.text(e.ResourceURI)
	w.sums.text(kind)
	s.BindInt64(1, b.next.last)
	s.BindInt64(2, b.stored)
	s.BindText(3, e.ServerID)
	s.BindText(4, e.ResourceURI)
	s.BindText(5, kind)
	s.BindText(6, string(r.data))
	s.BindInt64(7, w.sums.end(r.data))
	b.next.bytes += int64(2*len(e.ServerID) + 2*len(e.ResourceURI) + len(r.data) + rowBytes)
	return do(s)
}

// stamp returns the time of what is stored now, and whether the clock was set back. Times rise
// with the numbers, except at such a turn: a clock that is corrected by less than a minute stands
// still instead.
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

// durability chooses whether the next transaction is synced.
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

// committed notes what was synced.
func (w *writer) committed(now time.Time) {
	switch {
	case w.full:
		w.dirty, w.synced = false, now
	case w.l.opts.Durability == journal.Interval && !w.dirty:
		w.dirty, w.synced = true, now
		w.late.Reset(syncInterval)
	}
}

// stateRow is a row of states, listRow one of lists. after is the number of events of the batch
// before it was learned.
type stateRow struct {
	journal.State
	after int
}

type listRow struct {
	items string
	after int
}

func (b *batch) state(r journal.Resource, st journal.State) {
	if b.states == nil {
		b.states = map[journal.Resource]stateRow{}
	}
	b.states[r] = stateRow{st, len(b.rows)}
}

// putRemembered stores the states, lists and records of a batch.
func (w *writer) putRemembered(b *batch) error {
	resources := make([]journal.Resource, 0, len(b.states))
	for r := range b.states {
		resources = append(resources, r)
	}
	slices.SortFunc(resources, func(a, b journal.Resource) int { // neighbors are on one page
		if c := strings.Compare(a.ServerID, b.ServerID); c != 0 {
			return c
		}
		return strings.Compare(a.URI, b.URI)
	})
	for _, r := range resources {
		st := b.states[r]
		if err := w.putState(r, st.State, w.row.last+int64(st.after)); err != nil {
			return err
		}
	}
	for name, list := range b.lists {
		if err := w.putList(name, list.items, w.row.last+int64(list.after)); err != nil {
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
