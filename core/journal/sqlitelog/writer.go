package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

const (
	// maxGroup and maxGroupBytes bound one transaction. A transaction costs a sync, so it stores
	// more if more is waiting.
	maxGroup, maxGroupBytes = 4096, 4 << 20
	// maxEvent is the size in bytes above which an event is split.
	maxEvent = 1 << 20
	// syncInterval is how long an event may stay in the log without a sync with journal.Interval.
	syncInterval = 100 * time.Millisecond
	// tickInterval is how often the writer checks whether the file is in its place and whether
	// events have expired.
	tickInterval = time.Second
)

// writer stores queued items. Only its run goroutine uses it.
type writer struct {
	l     *Log
	file  *file
	conn  *sqlite.Conn // nil after a failed attempt to open the file again
	stmts *statements
	sums  *checksum
	wal   fs.FileInfo // events.db-wal; nil: unknown
	shm   fs.FileInfo // events.db-shm; nil: unknown
	row   logRow      // as committed

	clock   int64 // time of the last event, in microseconds
	full    bool  // PRAGMA synchronous is full
	erases  bool  // PRAGMA secure_delete is on
	removed bool  // a record was removed, and copies of it may be left
	stale   bool  // copies may be left in events.db-wal
	synced  time.Time
	dirty   bool        // something was committed since synced
	late    *time.Timer // rouses the queue when a sync is due
	ticked  time.Time
	looked  time.Time // for expired events
	doubt   bool      // it is unknown whether the last transaction was committed
	flushes []*item
}

// newWriter opens the file.
func newWriter(l *Log) (*writer, error) {
	w := &writer{l: l, late: time.AfterFunc(time.Hour, l.queue.Rouse)}
	w.late.Stop()
	return w, w.open(nil)
}

// open opens or creates the file, and lets readers use it.
func (w *writer) open(known *logRow) error {
	c, f, row, err := w.l.openFile(known)
	if err != nil {
		return err
	}
	stmts := new(statements)
	if err = stmts.prepare(c); err == nil {
		w.clock, err = number(c, "SELECT stored FROM events ORDER BY seq DESC LIMIT 1")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("event log: %w", err), c.Close())
	}
	w.conn, w.file, w.row, w.stmts, w.sums, w.doubt = c, f, row, stmts, newChecksum(row.origin), false
	w.full, w.erases, w.synced, w.dirty = true, false, time.Now(), false
	w.removed, w.stale, w.row.clean = !row.clean, false, false
	w.wal, _ = os.Lstat(f.path + "-wal")
	w.shm, _ = os.Lstat(f.path + "-shm")
	w.l.dir.mark(mark{row.epoch, row.last})
	w.l.view.replace(f, row)
	return nil
}

// close closes the file without marking it clean.
func (w *writer) close() {
	if w.conn != nil {
		w.file.readers.close()
		_ = w.conn.Close() // committed transactions are in the file
		w.conn = nil
	}
}

// run stores queued items, in groups that grow with the load. It returns when the queue is closed
// and empty, or when ctx ends.
func (w *writer) run(ctx context.Context) {
	defer w.late.Stop()
	ticker := time.NewTicker(tickInterval)
	stop := make(chan struct{})
	w.l.writing.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				w.l.queue.Rouse()
			case <-stop:
				return
			}
		}
	})
	defer close(stop)
	var err error // why the rest cannot be stored
	for group := w.l.queue.Take(maxGroup); group != nil; group = w.l.queue.Take(maxGroup) {
		if err != nil {
			w.giveUp(group, err)
		} else if err = w.storeGroup(ctx, group); err == nil {
			w.keep(ctx)
		}
	}
	for err == nil && w.l.contents.waiting() > 0 {
		err = w.storeGroup(ctx, nil)
	}
	w.finish()
}

// finish marks the log as closed by this run, and closes it. Closing the last connection moves the
// content of events.db-wal to events.db.
func (w *writer) finish() {
	if w.conn == nil {
		return
	}
	w.file.readers.close()
	err := w.synchronous(true)
	if err == nil && w.file.inPlace() {
		err = w.eraseRemoved()
	}
	if err == nil && w.file.inPlace() {
		row := w.row
		row.clean = true
		err = transaction(w.conn, func() error { return writeLog(w.conn, row) })
	}
	if err = errors.Join(err, w.conn.Close()); err != nil {
		w.l.opts.Logger.Warn("the event log could not be closed cleanly", "err", err)
	}
	w.conn = nil
}

// storeGroup stores a group of items in order, however long that takes. It abandons the rest only
// if ctx ends, and returns the reason.
func (w *writer) storeGroup(ctx context.Context, group []*item) error {
	for first := true; first || len(group) > 0; first = false {
		b := w.gather(&group)
		if b.empty() {
			continue
		}
		if err := w.store(ctx, b); err != nil {
			w.giveUp(b.items, err)
			w.giveUp(group, err)
			return err
		}
	}
	w.flushed()
	return nil
}

// giveUp fails the callers that wait for items that will not be stored, including calls of Flush.
func (w *writer) giveUp(items []*item, err error) {
	err = fmt.Errorf("event log: not stored: %w", err)
	for _, it := range append(items, w.flushes...) {
		if it.Event != nil {
			w.l.health.Unsaved.Add(1)
		}
		it.Finish(journal.Entry{}, err)
	}
	w.flushes = nil
}

// flushed answers the calls of Flush, which then wait for the texts.
func (w *writer) flushed() {
	w.l.queue.Stored() // before a woken caller looks
	for _, it := range w.flushes {
		it.Finish(journal.Entry{}, nil)
	}
	if w.flushes = nil; w.l.contents.waiting() > 0 {
		w.l.queue.Rouse()
	}
}

// batch is what one transaction stores.
type batch struct {
	items   []*item
	rows    []row
	bytes   int
	states  map[journal.ResourceID]stateRow
	lists   map[journal.ListName]listRow
	records []namedRecord
	texts   []text
	next    logRow // after the transaction
	began   int64  // when the last attempt began, in microseconds; the committed log.synced
	stored  int64  // the time of its events: began, unless the clock was set back
}

// row is a row of events.
type row struct {
	item  *item // finished with this row; nil for all but the last part of a split event
	event *event.Event
	local *event.Event // the event for readers in this process; nil for parts
	data  []byte
}

func (b *batch) empty() bool { return len(b.items)+len(b.texts) == 0 }

// gather makes a batch of the first items of a group, and removes them from it. Calls of Flush are
// kept until the whole group is stored.
func (w *writer) gather(group *[]*item) *batch {
	b := &batch{texts: w.l.contents.take()}
	n := 0
	for ; n < len(*group) && b.bytes < maxGroupBytes; n++ {
		it := (*group)[n]
		switch {
		case it.Event == nil && it.Note == nil:
			w.flushes = append(w.flushes, it)
			continue
		case it.Event != nil && !w.encode(b, it):
			continue
		case it.Note != nil:
			it.Note(b)
		}
		b.items = append(b.items, it)
	}
	*group = (*group)[n:]
	return b
}

// encode adds the rows of an event and what it tells. If the event cannot be stored, it finishes
// the item and returns false.
func (w *writer) encode(b *batch, it *item) bool {
	parts, err := storing.Encode(it.Event, maxEvent)
	if err != nil {
		w.l.health.TooLarge.Add(1)
		w.l.opts.Logger.Error("an event cannot be stored", "err", err)
		it.Finish(journal.Entry{}, err)
		return false
	}
	for n, data := range parts {
		r := row{event: it.Event, data: data}
		if n == len(parts)-1 {
			r.item = it
		}
		if len(parts) == 1 {
			r.local = journal.WithoutItems(it.Event)
		}
		b.rows = append(b.rows, r)
		b.bytes += len(data)
	}
	if r, st, ok := journal.Known(it.Event); ok {
		b.state(r, st)
	}
	for name, list := range journal.KnownLists(it.Event) {
		b.list(name, list)
	}
	return true
}

// store stores a batch. It abandons the batch only if ctx ends, and returns the reason.
func (w *writer) store(ctx context.Context, b *batch) error {
	if err := w.l.Err(); err != nil && ctx.Err() != nil { // Close has waited long enough
		w.l.contents.drop(b.texts)
		return err
	}
	retry := backoff.New(20*time.Millisecond, 2*time.Second)
	for {
		began := time.Now()
		err := w.attempt(b)
		if err == nil {
			if len(b.rows) > 0 {
				w.l.health.Synced(time.Since(began))
			}
			w.l.health.Works(w.l.queue.Size)
			w.stored(b)
			return nil
		}
		w.l.health.Fails(err)
		if !backoff.Sleep(ctx, retry.Next()) {
			w.l.contents.drop(b.texts)
			return err
		}
	}
}

// attempt stores a batch in one transaction. After a failure it looks whether the transaction is in
// the file, and it begins no other transaction before it knows.
func (w *writer) attempt(b *batch) error {
	if err := w.ready(); err != nil {
		return err
	}
	if w.doubt {
		if in, err := w.landed(b); in || err != nil {
			return err
		}
	}
	err := w.commit(b)
	if err == nil {
		return nil
	}
	rollback(w.conn)
	if damaged(err) {
		if err := w.reopen(err); err != nil {
			return err
		}
		if err = w.commit(b); err == nil {
			return nil
		}
		rollback(w.conn)
	}
	w.doubt = true
	if in, _ := w.landed(b); in {
		return nil
	}
	return err
}

// landed reports whether the file has the batch.
func (w *writer) landed(b *batch) (bool, error) {
	began, err := number(w.conn, "SELECT synced FROM log")
	if err != nil {
		return false, err
	}
	w.doubt = false
	return b.began != 0 && began == b.began, nil
}

// ready makes sure that the file is open and is the file at its path.
func (w *writer) ready() error {
	if w.conn == nil {
		return w.open(&w.row)
	}
	switch {
	case !w.file.inPlace():
		return w.restore()
	case w.file.emptied():
		return w.reopen(errEmptied(w.file.path))
	case !w.l.dir.locked():
		return w.relock()
	case !inPlace(w.file.path+"-wal", w.wal):
		return w.rejoin("events.db-wal")
	case !inPlace(w.file.path+"-shm", w.shm):
		return w.rejoin("events.db-shm")
	}
	if s := w.l.suspected.Swap(nil); s != nil && s.file == w.file {
		return w.reopen(s.err)
	}
	return nil
}

// reopen replaces a damaged file.
func (w *writer) reopen(cause error) error {
	w.close()
	known, err := w.l.rescue(cause, &w.row)
	if err != nil {
		return err
	}
	return w.open(known)
}

// lost counts and logs, once, that a file of the log was deleted or replaced while in use. Err
// returns the reason until the log works again.
func (w *writer) lost(name, what string, so string) {
	if w.l.health.Err() == nil {
		w.l.health.Damages.Add(1)
	}
	w.l.health.Fails(fmt.Errorf("%s was %s while mcptrack used it; %s", filepath.Join(w.l.dir.path, name), what, so))
}

// relock takes the lock again after the lock file was deleted.
func (w *writer) relock() error {
	w.lost("lock", "deleted", "mcptrack creates it again; no event is lost")
	if err := w.l.dir.reacquire(); err != nil {
		return err
	}
	w.l.dir.mark(mark{w.row.epoch, w.row.last})
	return nil
}

// rejoin is called when a file beside events.db was deleted. This connection still has the file:
// rejoin moves its content to events.db and opens events.db with new files. Otherwise the next
// process would not find the content.
func (w *writer) rejoin(name string) error {
	w.lost(name, "deleted", "mcptrack creates it again; no event is lost")
	w.file.readers.close()
	if err := w.synchronous(true); err != nil {
		return err
	}
	busy, err := number(w.conn, "PRAGMA wal_checkpoint(TRUNCATE)")
	if err == nil && busy != 0 {
		err = errors.New("another process reads the event log")
	}
	if err != nil {
		return fmt.Errorf("event log: move %s to events.db: %w", name, err)
	}
	w.close()
	return w.open(&w.row)
}

// restore is called when events.db was deleted or replaced while open. The file at the path becomes
// the log. In place of a deleted file, restore creates one with states, lists and records, but no
// events.
func (w *writer) restore() error {
	w.file.readers.close()
	_, err := os.Lstat(w.file.path)
	deleted := gone(err)
	if deleted {
		name := "events.db"
		if _, err := os.Lstat(w.l.dir.path); gone(err) {
			name = ""
		}
		w.lost(name, "deleted", "mcptrack continues with a new log as soon as it can create one, and readers get a gap. To recover the old events, stop mcptrack, restore the directory from a backup, and start mcptrack")
	} else {
		w.lost("events.db", "replaced", "mcptrack continues with the current file, and readers get a gap")
	}
	// The files beside it belong to the old file unless they were also replaced. SQLite would use
	// them with the new file.
	if wal, err := os.Lstat(w.file.path + "-wal"); deleted || w.wal != nil && err == nil && os.SameFile(wal, w.wal) {
		_ = os.Remove(w.file.path + "-wal")
		_ = os.Remove(w.file.path + "-shm")
	}
	if err := w.l.dir.reacquire(); err != nil {
		return err
	}
	old, origin := w.conn, w.file.origin
	w.conn = nil
	defer old.Close() // it moves nothing to the path, which belongs to another file
	if err := w.open(&w.row); err != nil {
		return err
	}
	if deleted {
		return transaction(w.conn, func() error {
			return newCopier(old, w.conn, origin, w.file.origin).remembered()
		})
	}
	return nil
}

// stored makes what was committed visible to readers, and then wakes the callers that wait for
// their items.
func (w *writer) stored(b *batch) {
	added := make([]kept, len(b.rows))
	at := time.UnixMicro(b.stored).UTC()
	seq := uint64(w.row.last)
	for i := range b.rows {
		r := &b.rows[i]
		seq++
		added[i] = kept{journal.NewEntry(w.file.epoch, seq, at, r.data).WithEvent(r.local), 256 + len(r.data) + journal.MemoryOf(r.event)}
	}
	w.row, w.clock = b.next, b.stored
	if len(b.rows) > 0 {
		w.l.dir.mark(mark{w.row.epoch, w.row.last}) // before anybody sees the events
	}
	w.l.health.Stored.Add(uint64(len(b.rows)))
	w.l.contents.done(b.texts)
	w.l.view.show(w.row, added)
	for i := range b.rows {
		if it := b.rows[i].item; it != nil && it.Done != nil {
			it.Finish(added[i].Entry, nil)
		}
	}
	for _, it := range b.items {
		if it.Event == nil {
			it.Finish(journal.Entry{}, nil)
		}
	}
}

// keep does periodic work: it syncs, removes what has expired, and checks whether the file is in
// its place.
func (w *writer) keep(ctx context.Context) {
	due := time.Since(w.ticked) >= tickInterval
	late := w.dirty && time.Since(w.synced) >= syncInterval
	if !due && !late && w.l.suspected.Load() == nil {
		return
	}
	if err := w.ready(); err != nil {
		w.l.health.Fails(err)
		return // the next tick retries
	}
	if due {
		w.ticked, w.looked = time.Now(), time.Time{}
		err := w.eraseRemoved()
		if damaged(err) {
			err = w.reopen(err)
		}
		if err != nil {
			w.l.health.Fails(err)
			return
		}
	}
	switch {
	case !late && !(due && w.overdue()):
		w.l.health.Works(w.l.queue.Size)
	case w.store(ctx, new(batch)) == nil && w.overdue():
		w.ticked = time.Time{} // more to remove, after what waits now
		w.l.queue.Rouse()
	}
}
