package sqlitelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/journal"
)

// The rescue of a damaged file first copies all readable data to events.db.new, in one transaction.
// It then renames events.db and moves events.db.new to its place. If a rescue is interrupted, the
// next start finishes or repeats it: events.db.new is complete if its PRAGMA user_version is set.

func (d *dir) newFile() string { return d.file() + ".new" }

// rescue replaces a damaged file with a new one that contains all readable data. No connection to
// the damaged file may be open. known is the last state of the log that this process has seen, or
// nil. rescue returns the state of the new log, to the extent that it is known.
func (l *Log) rescue(cause error, known *logRow) (*logRow, error) {
	l.health.Damages.Add(1)
	if err := l.removeNew(); err != nil {
		return nil, fmt.Errorf("event log: rescue a damaged file: %w", err)
	}
	row, copied, err := l.copyFile(known)
	if err != nil {
		return nil, fmt.Errorf("event log: rescue a damaged file: %w", err)
	}
	to, err := l.swap()
	if err != nil {
		return nil, fmt.Errorf("event log: move a damaged file aside: %w", err)
	}
	attrs := []any{"err", plain(cause), "movedTo", to, "events", copied}
	if lost := row.last + 1 - row.first - copied; lost > 0 {
		attrs = append(attrs, "lost", lost)
	}
	l.opts.Logger.Error("the event log is damaged; the file was moved aside, and all readable data was copied to a new one", attrs...)
	return &row, nil
}

// finishRescue finishes a rescue that was interrupted. It does nothing if there is none.
func (l *Log) finishRescue() error {
	path := l.dir.newFile()
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	complete := false
	if c, err := connect(path, sqlite.OpenReadWrite, readerCache); err == nil {
		version, err := number(c, "PRAGMA user_version")
		complete = err == nil && version > 0 && c.Close() == nil
	}
	var err error
	if complete {
		l.dir.seen = mark{} // the mark belongs to the damaged file
		_, err = l.swap()
	} else {
		err = l.removeNew()
	}
	if err != nil {
		return fmt.Errorf("event log: finish the rescue of a damaged file: %w", err)
	}
	return nil
}

func (l *Log) removeNew() error {
	for _, suffix := range []string{"-journal", "-wal", "-shm", ""} {
		if err := os.Remove(l.dir.newFile() + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// swap renames events.db, moves events.db.new to its place, and returns the new path of the damaged
// file. It first moves the -wal and -shm files of events.db, because SQLite would apply them to the
// new file.
func (l *Log) swap() (to string, err error) {
	path := l.dir.file()
	for n := 1; ; n++ {
		to = fmt.Sprintf("%s.damaged-%d", path, n)
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	for _, suffix := range []string{"-journal", "-shm", "-wal", ""} {
		if err := os.Rename(path+suffix, to+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return to, errors.Join(os.Rename(l.dir.newFile(), path), l.dir.sync())
}

// copyFile copies all readable data from events.db to events.db.new. It returns the row of the
// table log in the new file and the number of copied events.
func (l *Log) copyFile(known *logRow) (row logRow, copied int64, err error) {
	f, err := os.OpenFile(l.dir.newFile(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return row, 0, err
	}
	to, err := connect(l.dir.newFile(), sqlite.OpenReadWrite, writerCache)
	if err != nil {
		return row, 0, err
	}
	defer func() {
		if cerr := to.Close(); err == nil {
			err = cerr
		}
	}()
	if err := migrate(to); err != nil {
		return row, 0, err
	}
	row, err = readLog(to)
	if err != nil {
		return row, 0, err
	}
	// A non-zero version marks the file as complete, so it is set in the last transaction.
	if err := run(to, "PRAGMA user_version = 0"); err != nil {
		return row, 0, err
	}
	was, from := l.openDamaged(known)
	if from != nil {
		defer from.Close() // an error is harmless: the connection only reads
	}
	row.first, row.last = was.first, was.last
	err = transaction(to, func() error {
		if from != nil && was.origin != "" {
			if copied, err = newCopier(from, to, was.origin, row.origin).all(&row); err != nil {
				return err
			}
		}
		if err := l.heal(to, row.origin, true); err != nil {
			return err
		}
		row.first = max(row.first, 1)
		if row.last = max(row.last, l.dir.seen.last); known != nil {
			row.last = max(row.last, known.last)
		}
		row.durability, row.clean = journal.Always, true
		if err := writeLog(to, row); err != nil {
			return err
		}
		if err := run(to, "UPDATE epochs SET first = ?, why = ?", row.last+1, "the previous file was damaged"); err != nil {
			return err
		}
		return run(to, fmt.Sprintf("PRAGMA user_version = %d", len(migrations())))
	})
	return row, copied, err
}

// openDamaged opens the damaged file for reading. c is nil if that is impossible. If the row of the
// table log is damaged, was contains at most the first epoch of the file.
func (l *Log) openDamaged(known *logRow) (was logRow, c *sqlite.Conn) {
	if known != nil {
		was = *known
	}
	c, err := connect(l.dir.file(), sqlite.OpenReadOnly, readerCache)
	if err != nil {
		return was, nil
	}
	if row, err := readLog(c); err == nil {
		return row, c
	}
	if was.origin == "" { // the table epochs also contains the first epoch
		was.origin, _ = firstText(c, "SELECT epoch FROM epochs ORDER BY n LIMIT 1")
	}
	return was, c
}

// copier copies the rows that have correct checksums from one file to another.
type copier struct {
	from, to  *sqlite.Conn
	was, sums *checksum // checksums for the source file and the new file
}

func newCopier(from, to *sqlite.Conn, was, is string) *copier {
	return &copier{from: from, to: to, was: newChecksum(was), sums: newChecksum(is)}
}

// all copies all tables but calls and completes row, the row of the table log in the new file. It returns the
// number of copied events.
func (c *copier) all(row *logRow) (copied int64, err error) {
	if copied, err = c.events(row); err != nil {
		return copied, err
	}
	if err := c.table("turns", "seq", "seq", func(s *sqlite.Stmt) ([]any, bool) { return []any{s.ColumnInt64(0)}, true }); err != nil {
		return copied, err
	}
	err = c.table("contents", "n, digest, size, text, sum", "n", func(s *sqlite.Stmt) ([]any, bool) {
		digest, text := blob(s, 1), s.ColumnText(3)
		return []any{s.ColumnInt64(0), digest, int64(len(text)), text, c.sums.content(digest, text)}, c.was.content(digest, text) == s.ColumnInt64(4)
	})
	if err != nil {
		return copied, err
	}
	if row.textBytes, err = number(c.to, "SELECT coalesce(sum(size), 0) FROM contents"); err != nil {
		return copied, err
	}
	return copied, c.remembered()
}

// remembered copies the states, lists and records.
func (c *copier) remembered() error {
	err := c.table("states", "server, uri, digest, size, mime, at, seq, sum", "server, uri", func(s *sqlite.Stmt) ([]any, bool) {
		server, uri, digest, size, mime, at, seq := s.ColumnText(0), s.ColumnText(1), blob(s, 2), s.ColumnInt64(3), s.ColumnText(4), s.ColumnInt64(5), s.ColumnInt64(6)
		return []any{server, uri, digest, size, mime, at, seq, c.sums.state(server, uri, digest, size, mime, at, seq)},
			c.was.state(server, uri, digest, size, mime, at, seq) == s.ColumnInt64(7)
	})
	if err != nil {
		return err
	}
	err = c.table("lists", "server, kind, seq, items, sum", "server, kind", func(s *sqlite.Stmt) ([]any, bool) {
		server, kind, seq, items := s.ColumnText(0), s.ColumnText(1), s.ColumnInt64(2), s.ColumnText(3)
		return []any{server, kind, seq, items, c.sums.list(server, kind, seq, items)}, c.was.list(server, kind, seq, items) == s.ColumnInt64(4)
	})
	if err != nil {
		return err
	}
	return c.table("records", "name, key, value, revision, sum", "name, key", func(s *sqlite.Stmt) ([]any, bool) {
		name, rec := recordOf(s)
		return c.sums.recordRow(name, rec), c.was.record(name, rec) == s.ColumnInt64(4)
	})
}

func blob(s *sqlite.Stmt, n int) []byte {
	b := make([]byte, s.ColumnLen(n))
	s.ColumnBytes(n, b)
	return b
}

// table copies a table. For each row, valid returns the values to store, and false if the row is
// damaged and must be skipped. table reads forwards and then backwards, each time up to the first
// unreadable row. It returns only errors from writing the new file.
func (c *copier) table(name, columns, key string, valid func(s *sqlite.Stmt) (row []any, ok bool)) error {
	insert, err := c.to.Prepare("INSERT OR REPLACE INTO " + name + " VALUES (" + strings.Repeat("?, ", strings.Count(columns, ",")) + "?" + ")")
	if err != nil {
		return err
	}
	for _, order := range []string{key, strings.ReplaceAll(key, ",", " DESC,") + " DESC"} {
		s, err := c.from.Prepare("SELECT " + columns + " FROM " + name + " ORDER BY " + order)
		if err != nil {
			return nil // the schema is unreadable, so there is nothing to copy
		}
		row, err := s.Step()
		for ; row && err == nil; row, err = s.Step() {
			values, ok := valid(s)
			if !ok {
				continue
			}
			if err := do(insert, values...); err != nil {
				return err
			}
		}
		if err == nil {
			return s.Reset()
		}
	}
	return nil
}

// events copies the events. After an unreadable page, it continues with the next number that can be
// read.
func (c *copier) events(row *logRow) (copied int64, err error) {
	insert, err := c.to.Prepare("INSERT OR IGNORE INTO events VALUES (?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return 0, err
	}
	read, err := c.from.Prepare("SELECT " + eventColumns + " FROM events WHERE seq >= ? ORDER BY seq")
	if err != nil {
		return 0, nil // the schema is unreadable, so there is nothing to copy
	}
	sc := &scanner{sums: c.was}
	open := row.first == 0 // bounds unknown: the first valid event determines them
	if open {
		row.first = 1
	}
	end, err := number(c.from, "SELECT max(seq) FROM events")
	if err != nil || open || end > row.last+maxGroup { // the highest number may be damaged
		if end = row.last; open {
			end = c.end(sc)
		}
	}
	next := row.first
	for next <= end {
		bind(read, next)
		found, rerr := read.Step()
		for ; found && rerr == nil; found, rerr = read.Step() {
			ok := sc.read(read)
			r := &sc.row
			if !ok || r.seq < next || r.seq > end { // damaged, or the number is wrong
				open = false
				continue
			}
			next = r.seq + 1
			if open { // retention has removed earlier events
				row.first, open = r.seq, false
			}
			if err := do(insert, r.seq, r.stored, string(r.server), string(r.uri), string(r.kind), string(r.data), c.sums.event(r)); err != nil {
				return copied, err
			}
			copied++
			row.bytes += int64(2*len(r.server) + 2*len(r.uri) + len(r.data) + rowBytes)
			row.last = max(row.last, r.seq)
		}
		_ = read.Reset() // Reset only repeats the error that Step returned
		if rerr == nil && !found {
			break
		}
		next, open = readable(read, next, end), false
	}
	return copied, nil
}

// end returns the number of the last event with a correct checksum. It returns maxMark if there is
// none or the table is unreadable.
func (c *copier) end(sc *scanner) int64 {
	s, err := c.from.Prepare("SELECT " + eventColumns + " FROM events ORDER BY seq DESC")
	if err != nil {
		return maxMark
	}
	row, err := s.Step()
	for row && err == nil && !sc.read(s) {
		row, err = s.Step()
	}
	_ = s.Reset() // Reset only repeats the error that Step returned
	if err != nil || !row {
		return maxMark
	}
	return sc.row.seq
}

// readable returns a number greater than from, and at most end, from which events can be read. It
// returns end+1 if it finds none. It tries numbers at increasing distances, and then searches
// between the last two that it tried. read must be a query that returns events from the number in
// its parameter on, with the number in the first column.
func readable(read *sqlite.Stmt, from, end int64) int64 {
	can := func(seq int64) bool {
		bind(read, seq)
		found, err := read.Step()
		ok := err == nil && found && read.ColumnInt64(0) >= seq && read.ColumnInt64(0) <= end
		_ = read.Reset()
		return ok
	}
	unread, step := from, int64(1)
	for ; !can(unread + step); step *= 2 {
		if unread += step; unread >= end {
			return end + 1
		}
	}
	to := unread + step
	for to-unread > 1 {
		if middle := unread + (to-unread)/2; can(middle) {
			to = middle
		} else {
			unread = middle
		}
	}
	return to
}
