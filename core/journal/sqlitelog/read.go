package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

// view is the part of the log that readers in this process may see. Its methods are safe for
// concurrent use.
type view struct {
	mu     sync.Mutex // guards the fields below; not held during I/O
	file   *file
	bounds journal.Bounds
	// recent contains the newest entries, up to the last and without holes, so that followers need
	// not read the file. It is empty in a process that only reads.
	recent []kept
	bytes  int // total size of recent
	moved  wake.Change
}

// kept is an entry that is kept in memory.
type kept struct {
	journal.Entry
	size int // approximate memory use in bytes
}

// recentEntries and recentBytes limit the number and the total size of the newest entries that are
// kept in memory.
const recentEntries, recentBytes = 4096, 4 << 20

// now returns the current file and the bounds of the log.
func (v *view) now() (*file, journal.Bounds) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.file, v.bounds
}

// replace switches the view to another file, or to a new epoch of the same file.
func (v *view) replace(f *file, row logRow) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.file, v.recent, v.bytes = f, nil, 0
	v.moveLocked(row)
}

// show makes newly stored entries visible to readers.
func (v *view) show(row logRow, added []kept) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range added {
		v.bytes += added[i].size
	}
	v.recent = append(v.recent, added...)
	n := 0
	for ; len(v.recent)-n > recentEntries || n < len(v.recent) && v.recent[n].Seq < uint64(row.first) || v.bytes > recentBytes && n < len(v.recent); n++ {
		v.bytes -= v.recent[n].size
	}
	clear(v.recent[:n])
	v.recent = v.recent[n:]
	v.moveLocked(row)
}

func (v *view) moveLocked(row logRow) {
	v.bounds = journal.Bounds{Epoch: v.file.epoch, First: uint64(row.first), Last: uint64(row.last), Bytes: uint64(row.bytes)}
	v.moved.Happened()
}

// take appends to into the entries from number next to number to that are in memory. If to is 0,
// there is no upper limit. It also returns the number of the last entry in the log, and a channel
// that is closed when that number changes. ok is false if f is no longer the file of the log.
func (v *view) take(f *file, next, to uint64, into []journal.Entry) (_ []journal.Entry, last uint64, moved <-chan struct{}, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f != v.file {
		return into, 0, v.moved.Next(), false
	}
	if last = v.bounds.Last; to == 0 || to > last {
		to = last
	}
	if begin := last + 1 - uint64(len(v.recent)); next >= begin && next <= to {
		from := int(next - begin)
		for _, k := range v.recent[from:min(from+cap(into)-len(into), int(to+1-begin))] {
			into = append(into, k.Entry)
		}
	}
	return into, last, v.moved.Next(), true
}

// has reports whether f is still the file of the log. moved is closed when that may have changed.
func (v *view) has(f *file) (moved <-chan struct{}, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.moved.Next(), f == v.file
}

const (
	// pageEntries and pageBytes limit the number and the total size of the entries that are read
	// from the file in one step. The last entry may exceed the size. The entries are kept in memory
	// while the consumer processes them.
	pageEntries, pageBytes = 256, 512 << 10
	// pollInterval is the interval at which a process that only reads checks for new events.
	pollInterval = 100 * time.Millisecond
)

func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return l.iterate(ctx, func(ctx context.Context, r *reader) error {
		_, b := l.view.now()
		if r.next, r.to = max(from, 1), b.Last; r.next > r.to {
			return nil
		}
		return r.run(ctx)
	})
}

// Follow implements [journal.Log]. A process that only reads checks for new events every 100 ms.
func (l *Log) Follow(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return l.iterate(ctx, func(ctx context.Context, r *reader) error {
		r.next = max(from, 1)
		return r.run(ctx)
	})
}

// iterate returns a sequence of the entries that read yields. It passes read a reader of the file
// that is current when the iteration starts.
func (l *Log) iterate(ctx context.Context, read func(ctx context.Context, r *reader) error) iter.Seq2[journal.Entry, error] {
	return l.life.Iterate(ctx, func(ctx context.Context, yield func(journal.Entry, error) bool) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := l.refresh(ctx); err != nil {
			return err
		}
		f, _ := l.view.now()
		return read(ctx, &reader{l: l, file: f, yield: yield})
	})
}

// reader performs one pass over the log, for one call to Read, Follow or Select.
type reader struct {
	l     *Log
	file  *file
	next  uint64 // number of the next entry to yield
	to    uint64 // number of the last entry to yield; 0 means no end
	yield func(journal.Entry, error) bool

	numbers []int64 // of events to examine next, up to number end; only for Select
	end     uint64
}

// run yields entries until it has reached the last one to yield.
func (r *reader) run(ctx context.Context) error {
	buf := make([]journal.Entry, 0, pageEntries)
	for r.to == 0 || r.next <= r.to {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		entries, last, moved, ok := r.l.view.take(r.file, r.next, r.to, buf[:0])
		switch {
		case !ok:
			return journal.ErrEpoch
		case len(entries) > 0:
			for i := range entries {
				if err := r.pass(ctx, entries[i], i < len(entries)-1 || r.more(last, entries[i].Seq)); err != nil {
					return err
				}
			}
			clear(entries) // release large entries as soon as the view does
		case last < r.next:
			if err := r.l.await(ctx, moved); err != nil {
				return err
			}
		default:
			if err := r.page(ctx, last); err != nil {
				return err
			}
		}
	}
	return nil
}

// more reports whether another entry is available immediately after number seq.
func (r *reader) more(last, seq uint64) bool {
	if r.to != 0 {
		last = r.to
	}
	return seq < last
}

// pass yields an entry and advances r.next.
func (r *reader) pass(ctx context.Context, e journal.Entry, more bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.next = e.Seq + 1
	e.More = more
	if !r.yield(e, nil) {
		return storing.ErrStop
	}
	return nil
}

// page reads a page from the file and yields its entries, with gaps in place of missing ones.
func (r *reader) page(ctx context.Context, last uint64) error {
	to := last
	if r.to != 0 {
		to = min(to, r.to)
	}
	p, err := r.l.page(ctx, r.file, r.next, to)
	if err != nil {
		return err
	}
	for i, e := range p.entries {
		if err := r.missing(ctx, p.first, e.Seq-1, true); err != nil {
			return err
		}
		if err := r.pass(ctx, e, i < len(p.entries)-1 || r.more(last, e.Seq)); err != nil {
			return err
		}
	}
	return r.missing(ctx, p.first, p.to, r.more(last, p.to))
}

// missing yields gaps for the missing entries from r.next to last. first is the number of the first
// entry that retention has kept. more is true if another entry follows them immediately.
func (r *reader) missing(ctx context.Context, first, last uint64, more bool) error {
	for _, gap := range r.l.health.Missing(r.file.epoch, r.next, first, last) {
		if err := r.pass(ctx, gap, more || gap.Seq < last); err != nil {
			return err
		}
	}
	return nil
}

// page is the result of reading a range of the log from the file: all entries of the range that
// are there, which ends with number to. first is the number of the first entry that retention has kept.
type page struct {
	entries   []journal.Entry
	first, to uint64
}

// page reads a page of entries, starting with number from and ending with number to or earlier.
func (l *Log) page(ctx context.Context, f *file, from, to uint64) (p page, err error) {
	err = l.readFile(ctx, f, func(c *sqlite.Conn) error {
		row, err := readLog(c)
		if err != nil {
			return err
		}
		if row.epoch != f.epoch {
			return journal.ErrEpoch
		}
		s, err := c.Prepare("SELECT " + eventColumns + " FROM events WHERE seq BETWEEN ? AND ? ORDER BY seq")
		if err != nil {
			return err
		}
		p = page{first: uint64(row.first), to: to, entries: make([]journal.Entry, 0, min(pageEntries, to-from+1))}
		bind(s, number64(from), number64(to))
		sc, next := newScanner(f), number64(from)
		for n, bytes := 0, 0; ; n++ {
			row, err := s.Step()
			full := n >= pageEntries || bytes >= pageBytes
			if err != nil || !row {
				return err
			}
			seq := s.ColumnInt64(0)
			if seq < next {
				return errors.Join(fmt.Errorf("%w: an event has a wrong number", errDamaged), s.Reset())
			}
			if next = seq + 1; full {
				p.to = uint64(seq) - 1
				return s.Reset()
			}
			e, ok := sc.scan(s)
			bytes += sc.size
			if ok {
				p.entries = append(p.entries, e)
			}
		}
	})
	return p, err
}

// number64 converts an event number to the type in which SQLite stores it.
func number64(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// eventColumns lists the columns that a scanner reads.
const eventColumns = "seq, stored, server, uri, type, event"

// scanner converts rows of the table events to entries.
type scanner struct {
	epoch string
	row   eventRow
	buf   []byte
	size  int // size of the last row that was scanned
}

// eventRow is a row of the table events. server, uri and kind are valid only until the next row is
// scanned.
type eventRow struct {
	seq, stored       int64
	server, uri, kind []byte
	data              []byte
}

func newScanner(f *file) *scanner { return &scanner{epoch: f.epoch} }

// scan returns the entry in a row. ok is false if the row is not an event.
func (sc *scanner) scan(s *sqlite.Stmt) (e journal.Entry, ok bool) {
	if ok = sc.read(s); !ok {
		return e, false
	}
	return journal.NewEntry(sc.epoch, uint64(sc.row.seq), time.UnixMicro(sc.row.stored).UTC(), sc.row.data), true
}

// read reads a row into sc.row and reports whether it is an event. Reading the next row overwrites the
// data.
func (sc *scanner) read(s *sqlite.Stmt) bool {
	r := &sc.row
	r.seq, r.stored = s.ColumnInt64(0), s.ColumnInt64(1)
	sc.buf = sc.buf[:0]
	r.server, r.uri, r.kind, r.data = sc.column(s, 2), sc.column(s, 3), sc.column(s, 4), sc.column(s, 5)
	sc.size = len(sc.buf)
	return r.seq > 0 && journal.Keepable(r.data)
}

// column appends the text in column n to the buffer and returns it. Slices of earlier columns stay
// valid even if the buffer is reallocated.
func (sc *scanner) column(s *sqlite.Stmt, n int) []byte {
	begin, size := len(sc.buf), s.ColumnLen(n)
	if begin+size > cap(sc.buf) {
		sc.buf = append(make([]byte, 0, 2*(begin+size)), sc.buf...)
	}
	sc.buf = sc.buf[:begin+size]
	return sc.buf[begin : begin+s.ColumnBytes(n, sc.buf[begin:])]
}

// read calls f with the current file and with a connection to it, in a read transaction.
func (l *Log) read(ctx context.Context, f func(f *file, c *sqlite.Conn) error) error {
	ctx, cancel := l.life.Begin(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for {
		if err := l.refresh(ctx); err != nil {
			return err
		}
		file, _ := l.view.now()
		err := l.readFile(ctx, file, func(c *sqlite.Conn) error { return f(file, c) })
		if !errors.Is(err, journal.ErrEpoch) {
			return err
		}
	}
}

// suspicion is damage that a reader has found in a file. It applies only to that file, not to its
// replacement.
type suspicion struct {
	file *file
	err  error
}

// readFile calls f with a connection to the file. If the file is damaged, readFile makes the writer
// set it aside, waits until that is done, and returns [journal.ErrEpoch].
func (l *Log) readFile(ctx context.Context, file *file, f func(c *sqlite.Conn) error) error {
	err := file.readers.use(ctx, f)
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, journal.ErrEpoch):
		return err
	case damaged(err) && !l.opts.Existing:
		if _, ok := l.view.has(file); ok {
			l.suspected.Store(&suspicion{file, err})
			l.queue.Rouse()
		}
	case !errors.Is(err, errRetired):
		return fmt.Errorf("event log: read: %w", plain(err))
	}
	for {
		moved, ok := l.view.has(file)
		if !ok {
			return journal.ErrEpoch
		}
		if err := l.await(ctx, moved); err != nil {
			return err
		}
	}
}

// await waits until the view changes. A process that only reads waits for pollInterval instead and
// then updates the view.
func (l *Log) await(ctx context.Context, moved <-chan struct{}) error {
	if l.opts.Existing {
		backoff.Sleep(ctx, pollInterval)
		if ctx.Err() == nil {
			return l.refresh(ctx)
		}
		return context.Cause(ctx)
	}
	select {
	case <-moved:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refresh updates the view from the file in a process that only reads. Otherwise it does nothing.
func (l *Log) refresh(ctx context.Context) error {
	if !l.opts.Existing {
		return nil
	}
	select {
	case l.refreshing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.refreshing }()
	f, b := l.view.now()
	var row logRow
	err := errRetired
	if f.inPlace() && inPlace(f.path+"-wal", f.wal) && inPlace(f.path+"-shm", f.shm) {
		err = f.readers.use(ctx, func(c *sqlite.Conn) (err error) {
			row, err = readLog(c)
			return err
		})
	}
	switch {
	case err == nil && row.epoch == f.epoch && uint64(row.last) == b.Last:
		return nil
	case err == nil && row.epoch == f.epoch:
		l.view.show(row, nil)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	f.readers.close() // must come first, because all connections of a process share the -wal and -shm files
	next, row, err := l.openExisting(ctx)
	if gone(err) {
		return nil // the file is just being replaced
	}
	if err != nil {
		return err
	}
	l.view.replace(next, row)
	return nil
}
