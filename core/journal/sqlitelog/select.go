package sqlitelog

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// partBits is the binary logarithm of the number of events in one part of the index of events; the
// package documentation describes the index. The definition of the index contains the same number.
const partBits = 14

func (l *Log) Select(ctx context.Context, sel journal.Selection) iter.Seq2[journal.Entry, error] {
	return l.iterate(ctx, func(ctx context.Context, r *reader) error {
		_, b := l.view.now()
		r.next, r.to = b.First, b.Last
		if !sel.After.IsZero() {
			since, err := l.Since(ctx, sel.After)
			if err != nil {
				return err
			}
			r.next = max(r.next, since)
		}
		return r.selected(ctx, sel)
	})
}

// selected yields the selected entries. It yields an entry only when it knows whether another one
// follows, so that it can set More.
func (r *reader) selected(ctx context.Context, sel journal.Selection) error {
	var held *journal.Entry
	for r.next <= r.to {
		found, err := r.selectPart(ctx, sel)
		if err != nil {
			return err
		}
		for _, e := range found {
			next := r.next
			if held != nil {
				if err := r.pass(ctx, *held, true); err != nil {
					return err
				}
			}
			r.next, held = next, &e
		}
	}
	if held == nil {
		return nil
	}
	return r.pass(ctx, *held, false)
}

// selectPart returns selected entries from number r.next on, at most one page and only from one
// part of the index. It advances r.next past the events that it has examined.
func (r *reader) selectPart(ctx context.Context, sel journal.Selection) (found []journal.Entry, err error) {
	part := r.next >> partBits
	to := min(r.to, (part+1)<<partBits-1)
	next := r.next
	err = r.l.readFile(ctx, r.file, func(c *sqlite.Conn) error {
		found, next = nil, r.next
		numbers, err := numbersOf(c, sel, next, to)
		if err != nil {
			return err
		}
		s, err := c.Prepare("SELECT " + eventColumns + " FROM events WHERE seq = ?")
		if err != nil {
			return err
		}
		sc := newScanner(r.file)
		for n, bytes := 0, 0; n < len(numbers) && n < pageEntries && bytes < pageBytes; n++ {
			bind(s, numbers[n])
			next = uint64(numbers[n]) + 1
			row, err := s.Step()
			if err != nil {
				return err
			}
			if row {
				e, ok := sc.scan(s)
				bytes += sc.size
				if ok && sc.row.isSelected(sel) {
					found = append(found, e)
				}
			}
			if err := s.Reset(); err != nil {
				return err
			}
		}
		switch n := len(numbers); {
		case n > 0 && next <= uint64(numbers[n-1]): // stopped early: the rest of numbers follows in the next call
		case sel.ServerID == "" && n == pageEntries: // numbers was a full page, so this part may contain more
		default:
			next = to + 1
		}
		return nil
	})
	r.next = next
	return found, err
}

// numbersOf returns, in increasing order, the numbers of the events in the range from first to last
// that the selection may include. The range must be within one part of the index. If the selection
// includes all servers, it returns at most one page of numbers.
func numbersOf(c *sqlite.Conn, sel journal.Selection, first, last uint64) (numbers []int64, err error) {
	text, args := fmt.Sprintf("SELECT seq FROM events WHERE seq BETWEEN ? AND ? ORDER BY seq LIMIT %d", pageEntries), []any{number64(first), number64(last)}
	if sel.ServerID != "" {
		text, args = "SELECT seq FROM events INDEXED BY events_by_resource WHERE seq BETWEEN ? AND ? AND seq >> 14 = ? AND server = ?", append(args, number64(first>>partBits), sel.ServerID)
		if sel.URI != "" || sel.Own {
			text, args = text+" AND uri = ?", append(args, sel.URI)
		}
	}
	err = query(c, text, func(s *sqlite.Stmt) error {
		numbers = append(numbers, s.ColumnInt64(0))
		return nil
	}, args...)
	slices.Sort(numbers)
	return numbers, err
}

// isSelected reports whether the selection includes the row. It searches the JSON text for a field;
// that is reliable because quotation marks within JSON strings are escaped.
func (r *eventRow) isSelected(sel journal.Selection) bool {
	switch {
	case sel.ServerID == "":
		return true
	case string(r.server) != sel.ServerID:
		return false
	case sel.URI == "":
		return !sel.Own || len(r.uri) == 0
	case string(r.uri) != sel.URI:
		return false
	}
	return string(r.kind) == string(event.TypeResourceRemoved) || string(r.kind) == string(event.TypeResourceUpdated) && bytes.Contains(r.data, []byte(`,"digest":"`))
}

func (l *Log) Since(ctx context.Context, t time.Time) (seq uint64, err error) {
	err = l.read(ctx, func(_ *file, c *sqlite.Conn) error {
		row, err := readLog(c)
		if err != nil {
			return err
		}
		at := t.UnixMicro()
		if t.After(time.UnixMicro(at)) {
			at++
		}
		n, err := firstSince(c, row.first, row.last, at)
		seq = uint64(n)
		return err
	})
	return seq, err
}

// firstSince returns the number of the first event in the range from first to last that was stored
// at the time at, in microseconds, or later. It returns last+1 if there is none. Stored times must
// increase within the range.
func firstSince(c *sqlite.Conn, first, last, at int64) (int64, error) {
	end := last + 1
	for first < end {
		middle := first + (end-first)/2
		stored, err := number(c, "SELECT coalesce((SELECT stored FROM events WHERE seq >= ? ORDER BY seq LIMIT 1), ?)", middle, at)
		if err != nil {
			return 0, err
		}
		if stored >= at {
			end = middle
		} else {
			first = middle + 1
		}
	}
	return end, nil
}
