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
		found, err := r.selectPage(ctx, sel)
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

// selectPage returns selected entries from number r.next on, at most one page. It advances r.next past the
// events that it has examined.
func (r *reader) selectPage(ctx context.Context, sel journal.Selection) (found []journal.Entry, err error) {
	next, numbers, end := r.next, r.numbers, r.end
	err = r.l.readFile(ctx, r.file, func(c *sqlite.Conn) error {
		s, err := c.Prepare("SELECT " + eventColumns + " FROM events WHERE seq = ?")
		if err != nil {
			return err
		}
		sc := newScanner(r.file)
		for n, bytes := 0, 0; n < pageEntries && bytes < pageBytes && next <= r.to; n++ {
			if len(numbers) == 0 {
				if numbers, end, err = numbersOf(c, sel, next, r.to); err != nil {
					return err
				}
			}
			if len(numbers) > 0 {
				bind(s, numbers[0])
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
				next, numbers = uint64(numbers[0])+1, numbers[1:]
			}
			if len(numbers) == 0 {
				next = end + 1
			}
		}
		return nil
	})
	r.next, r.numbers, r.end = next, numbers, end
	return found, err
}

// numbersOf returns, in increasing order, the numbers of the events in the range from first to end that the
// selection may include. The range ends with number last, or earlier: with the part of the index that has first
// or, if the selection includes all servers, after one page of numbers.
func numbersOf(c *sqlite.Conn, sel journal.Selection, first, last uint64) (numbers []int64, end uint64, err error) {
	last = min(last, (first>>partBits+1)<<partBits-1)
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
	if n := len(numbers); sel.ServerID == "" && n == pageEntries {
		last = uint64(numbers[n-1])
	}
	return numbers, last, err
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
