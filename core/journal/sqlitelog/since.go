package sqlitelog

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Since implements [journal.Log].
func (l *Log) Since(ctx context.Context, t time.Time) (seq uint64, err error) {
	ctx, cancel := l.lifetime(ctx)
	defer cancel()
	err = l.reading(ctx, func(_ *file, c *sqlite.Conn) error {
		row, err := readLog(c)
		if err != nil {
			return err
		}
		n, err := sinceTime(c, row.first, row.last, t)
		seq = uint64(n)
		return err
	})
	return seq, err
}

// sinceTime returns the number of the first event from first to last that was stored at t or
// later; last+1 if there is none.
func sinceTime(c *sqlite.Conn, first, last int64, t time.Time) (int64, error) {
	at := t.UnixMicro()
	if t.After(time.UnixMicro(at)) {
		at++
	}
	turns, err := turnsOf(c, first, last)
	if err != nil {
		return 0, err
	}
	for i, begin := range turns {
		end := last
		if i < len(turns)-1 {
			end = turns[i+1] - 1
		}
		if n, err := firstSince(c, begin, end, at); err != nil || n <= end {
			return n, err
		}
	}
	return last + 1, nil
}

// turnsOf returns first and the numbers of events above it, up to last, at which the clock was set
// back.
func turnsOf(c *sqlite.Conn, first, last int64) ([]int64, error) {
	turns := []int64{first}
	err := sqlitex.Execute(c, "SELECT seq FROM turns WHERE seq > ? AND seq <= ? ORDER BY seq", &sqlitex.ExecOptions{Args: []any{first, last}, ResultFunc: func(s *sqlite.Stmt) error {
		turns = append(turns, s.ColumnInt64(0))
		return nil
	}})
	return turns, err
}

// firstSince returns the number of the first event from first to last that was stored at a time in
// microseconds or later; last+1 if there is none. The times rise from first to last.
func firstSince(c *sqlite.Conn, first, last, at int64) (int64, error) {
	probe, err := c.Prepare("SELECT stored FROM events WHERE seq >= ? ORDER BY seq LIMIT 1")
	if err != nil {
		return 0, err
	}
	end := last + 1
	for first < end {
		middle := first + (end-first)/2
		probe.BindInt64(1, middle)
		row, err := probe.Step()
		if err != nil {
			return 0, err
		}
		stored := probe.ColumnInt64(0)
		if err := probe.Reset(); err != nil {
			return 0, err
		}
		if !row || stored >= at {
			end = middle
		} else {
			first = middle + 1
		}
	}
	return end, nil
}
