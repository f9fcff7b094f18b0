package sqlitelog

import (
	"time"

	"zombiezen.com/go/sqlite"
)

// minTrim is how many events one transaction may remove, or twice as many as it adds: removing a
// million events that are too old after a long pause must not keep new ones waiting.
const minTrim = 4096

// trim removes the oldest events that the retention does not allow, at most limit.
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
	s.BindInt64(1, next.first)
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
	w.stmts.trim.BindInt64(1, first)
	next.first, next.bytes = first, max(bytes, 0)
	if err := do(w.stmts.trim); err != nil {
		return err
	}
	w.stmts.oldTurns.BindInt64(1, first)
	return do(w.stmts.oldTurns)
}

// overdue reports whether there are events or texts that are to be removed.
func (w *writer) overdue() bool {
	if w.row.textBytes > w.l.opts.KeepContent {
		return true
	}
	expired, err := w.expired(time.Now())
	return err != nil || expired >= w.row.first || w.row.bytes > w.l.opts.RetainBytes
}

// expired returns the number of the last event that is too old, 0 if there is none.
func (w *writer) expired(now time.Time) (int64, error) {
	return lastBefore(w.conn, w.row.first, w.row.last, now.Add(-w.l.opts.Retain).UnixMicro())
}

// lastBefore returns the number of the last event from first to last that was stored before a time
// in microseconds, 0 if there is none. Times rise between the turns of the clock.
func lastBefore(c *sqlite.Conn, first, last, at int64) (int64, error) {
	oldest, err := number(c, "SELECT stored FROM events WHERE seq >= ? ORDER BY seq LIMIT 1", first)
	if err != nil || last < first {
		return 0, err
	}
	turns, err := turnsOf(c, first, last)
	if err != nil || oldest >= at && len(turns) == 1 {
		return 0, err
	}
	for i := len(turns) - 1; i >= 0; i-- {
		end := last
		if i < len(turns)-1 {
			end = turns[i+1] - 1
		}
		n, err := firstSince(c, turns[i], end, at)
		if err != nil {
			return 0, err
		}
		if n > turns[i] {
			return n - 1, nil
		}
	}
	return 0, nil
}
