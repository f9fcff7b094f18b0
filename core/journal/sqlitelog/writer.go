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
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

const (
	// maxGroup and maxGroupBytes limit the number of items and the bytes that one transaction
	// stores. Each transaction costs a sync, so it stores as many waiting items as the limits
	// allow.
	maxGroup, maxGroupBytes = 4096, 4 << 20
	// maxEvent is the size in bytes above which an event is split into several rows.
	maxEvent = 1 << 20
	// syncInterval is the longest time for which a stored event may remain unsynced with
	// journal.Interval.
	syncInterval = 100 * time.Millisecond
	// tickInterval is the interval at which the writer removes expired events and checks whether
	// its files are still in place.
	tickInterval = time.Second
)

// writer stores queued items. Only its run goroutine may use it.
type writer struct {
	l     *Log
	file  *file
	conn  *sqlite.Conn // nil after a failed attempt to reopen the file
	stmts *statements
	wal   fs.FileInfo // events.db-wal; nil if unknown
	shm   fs.FileInfo // events.db-shm; nil if unknown
	row   logRow      // row of the table log as of the last commit

	callTotal int64 // total of the last row of the table calls

	clock   int64 // stored time of the last event, in microseconds
	full    bool  // PRAGMA synchronous is set to full
	synced  time.Time
	dirty   bool        // a transaction was committed after the last sync
	late    *time.Timer // rouses the queue when the next sync is due
	ticked  time.Time
	looked  time.Time // time of the last check for expired events
	doubt   bool      // it is unknown whether the last transaction was committed
	flushes []*item
	states  map[journal.ResourceID]journal.State // of the current batch
}

// newWriter returns a writer for the log's file, which it opens.
func newWriter(l *Log) (*writer, error) {
	w := &writer{l: l, states: map[journal.ResourceID]journal.State{}, late: time.AfterFunc(time.Hour, l.queue.Rouse)}
	w.late.Stop()
	return w, w.open(nil)
}

// open opens events.db, or a new file if it is missing or damaged, and makes it available to readers.
// known is the last state of the log that this process has seen, or nil.
func (w *writer) open(known *logRow) error {
	c, f, row, err := w.l.openFile(known)
	if err != nil {
		return err
	}
	stmts := new(statements)
	if err = stmts.prepare(c); err == nil {
		w.clock, err = number(c, "SELECT stored FROM events ORDER BY seq DESC LIMIT 1")
	}
	if err == nil {
		err = w.loadCalls(c)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("event log: %w", err), c.Close())
	}
	w.conn, w.file, w.row, w.stmts, w.doubt = c, f, row, stmts, false
	w.full, w.synced, w.dirty, w.row.clean = true, time.Now(), false, false
	w.wal, _ = os.Lstat(f.path + "-wal")
	w.shm, _ = os.Lstat(f.path + "-shm")
	w.l.dir.mark(mark{row.epoch, row.last})
	w.l.view.replace(f, row)
	return nil
}

// close closes the connection without recording that the log was closed properly.
func (w *writer) close() {
	if w.conn != nil {
		w.file.readers.close()
		_ = w.conn.Close() // all committed transactions are already in the file
		w.conn = nil
	}
}

// run stores queued items in groups, which become larger under load. It returns when the queue is
// closed and empty, or when ctx ends.
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
	var err error // the reason why the remaining items cannot be stored
	for group := w.l.queue.Take(maxGroup); group != nil; group = w.l.queue.Take(maxGroup) {
		if err != nil {
			w.giveUp(group, err)
		} else if err = w.storeGroup(ctx, group); err == nil {
			w.keep(ctx)
		}
	}
	for err == nil && (w.l.contents.waiting() > 0 || w.l.calls.waits()) {
		err = w.storeGroup(ctx, nil)
	}
	w.finish()
}

// finish records that this run has closed the log properly, and closes the file. Closing the last
// connection moves the content of events.db-wal to events.db.
func (w *writer) finish() {
	if w.conn == nil {
		return
	}
	w.file.readers.close()
	err := w.synchronous(true)
	if err == nil && w.file.inPlace() {
		row := w.row
		row.clean = true
		err = transaction(w.conn, func() error { return writeLog(w.conn, row) })
	}
	if err = errors.Join(err, w.conn.Close()); err != nil {
		w.l.opts.Logger.Warn("the event log could not be closed properly", "err", err)
	}
	w.conn = nil
}

// storeGroup stores a group of items in order. It retries until it succeeds. If ctx ends first, it
// gives up the remaining items and returns the reason.
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

// giveUp reports err to the callers that wait for items that will not be stored, including callers
// of Flush.
func (w *writer) giveUp(items []*item, err error) {
	err = fmt.Errorf("event log: the event was not stored: %w", err)
	for _, it := range append(items, w.flushes...) {
		if it.Event != nil {
			w.l.health.Unsaved.Add(1)
		}
		it.Finish(err)
	}
	w.flushes = nil
}

// flushed wakes the waiting callers of Flush. They then wait for the texts.
func (w *writer) flushed() {
	w.l.queue.Stored() // must come before a caller wakes up and checks Size
	for _, it := range w.flushes {
		it.Finish(nil)
	}
	if w.flushes = nil; w.l.contents.waiting() > 0 {
		w.l.queue.Rouse()
	}
}

// batch contains the events, states, lists and texts that one transaction stores.
type batch struct {
	items  []*item
	rows   []row
	bytes  int
	states map[journal.ResourceID]journal.State
	lists  map[journal.ListName]string // JSON
	texts  []text
	calls  []calls.Call
	// callTotal is the total of the last row of the table calls as it will be after the transaction.
	callTotal int64
	next      logRow // row of the table log as it will be after the transaction
	began     int64  // start of the last attempt, in microseconds; becomes log.synced when committed
	stored    int64  // stored time of the events; equals began unless the clock was set back
}

// row is an event, or a part of a split event, to be inserted into the table events.
type row struct {
	event *event.Event
	local *event.Event // event for readers in this process; nil for a part of a split event
	data  []byte
}

func (b *batch) empty() bool { return len(b.items)+len(b.texts)+len(b.calls) == 0 }

// gather removes the first items of a group and puts them into a batch. Flush items are kept
// separately until the whole group is stored.
func (w *writer) gather(group *[]*item) *batch {
	clear(w.states)
	b := &batch{states: w.states, texts: w.l.contents.take(), calls: w.l.calls.take()}
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

// encode adds an event to a batch: its rows, and the states and lists that it reports. It returns
// false if the event cannot be stored.
func (w *writer) encode(b *batch, it *item) bool {
	parts, err := storing.Encode(it.Event, maxEvent)
	if err != nil {
		w.l.health.TooLarge.Add(1)
		w.l.opts.Logger.Error("an event cannot be stored and is dropped", "err", err)
		return false
	}
	for _, data := range parts {
		r := row{event: it.Event, data: data}
		if len(parts) == 1 {
			r.local = journal.WithoutDefinitions(it.Event)
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

// store stores a batch. It retries until it succeeds. If ctx ends first, it gives up and returns
// the reason.
func (w *writer) store(ctx context.Context, b *batch) error {
	if err := w.l.Err(); err != nil && ctx.Err() != nil { // Close does not wait any longer for a store that fails
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

// attempt stores a batch in a single transaction. If the commit fails, it checks whether the
// transaction is in the file nevertheless. It starts no other transaction before that is known.
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
	if sqlite.ErrCode(err).ToPrimary() == sqlite.ResultFull {
		// What was committed may still be in events.db-wal, and give room when it is in events.db.
		_, _ = number(w.conn, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
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

// landed reports whether the file contains the batch.
func (w *writer) landed(b *batch) (bool, error) {
	began, err := number(w.conn, "SELECT synced FROM log")
	if err != nil {
		return false, err
	}
	w.doubt = false
	return b.began != 0 && began == b.began, nil
}

// ready makes sure that the file is open, undamaged and still the file at its path. Otherwise it
// opens another.
func (w *writer) ready() error {
	if w.conn == nil {
		return w.open(&w.row)
	}
	if w.file.emptied() {
		return w.reopen(errEmptied(w.file.path))
	}
	if name := w.missing(); name != "" {
		return w.restore(name)
	}
	if s := w.l.suspected.Swap(nil); s != nil && s.file == w.file {
		return w.reopen(s.err)
	}
	return nil
}

// reopen sets a damaged file aside and opens a new one. cause is the damage.
func (w *writer) reopen(cause error) error {
	w.close()
	last, err := w.l.setAside(cause, &w.row)
	if err != nil {
		return err
	}
	return w.open(last)
}

// missing returns the name of a file in the directory that was deleted or replaced, or an empty string.
func (w *writer) missing() string {
	switch {
	case !w.file.inPlace():
		return "events.db"
	case !w.l.dir.locked():
		return "lock"
	case !inPlace(w.file.path+"-wal", w.wal):
		return "events.db-wal"
	case !inPlace(w.file.path+"-shm", w.shm):
		return "events.db-shm"
	}
	return ""
}

// restore opens the log again after a file was deleted or replaced. Until that succeeds, Err returns
// the reason. If events.db is missing, a new log begins; the open connection still has the content of
// any other file.
func (w *writer) restore(name string) error {
	if w.l.health.Err() == nil {
		w.l.health.Damages.Add(1)
	}
	so := "mcptrack will create it again; no event is lost"
	if name == "events.db" {
		so = "mcptrack continues with the file that is there now, or a new one, and readers receive a gap. To recover the old events, stop mcptrack, restore the directory from a backup, and start mcptrack again"
	}
	w.l.health.Fails(fmt.Errorf("%s was deleted or replaced while mcptrack was using it; %s", filepath.Join(w.l.dir.path, name), so))
	if err := w.l.dir.reacquire(); err != nil {
		return err
	}
	w.file.readers.close()
	if name != "events.db" { // move what other processes cannot find to events.db
		if err := w.synchronous(true); err != nil {
			return err
		}
		busy, err := number(w.conn, "PRAGMA wal_checkpoint(TRUNCATE)")
		if err == nil && busy != 0 {
			err = errors.New("another process is reading the event log")
		}
		if err != nil {
			return fmt.Errorf("event log: restore %s: %w", name, err)
		}
	} else if wal, err := os.Lstat(w.file.path + "-wal"); w.wal != nil && err == nil && os.SameFile(wal, w.wal) {
		// They belong to the old file, but SQLite would apply them to the new one.
		_ = os.Remove(w.file.path + "-wal")
		_ = os.Remove(w.file.path + "-shm")
	}
	w.close()
	return w.open(&w.row)
}

// stored makes a committed batch visible to readers, and then wakes the callers that wait for its
// items.
func (w *writer) stored(b *batch) {
	added := make([]kept, len(b.rows))
	at := time.UnixMicro(b.stored).UTC()
	seq := uint64(w.row.last)
	for i := range b.rows {
		r := &b.rows[i]
		seq++
		added[i] = kept{journal.NewEntry(w.file.epoch, seq, at, r.data).WithEvent(r.local), 256 + len(r.data) + journal.MemoryOf(r.event)}
	}
	w.row, w.clock, w.callTotal = b.next, b.stored, max(w.callTotal, b.callTotal)
	if len(b.rows) > 0 {
		w.l.dir.mark(mark{w.row.epoch, w.row.last}) // must come before any reader sees the events
	}
	w.l.health.Stored.Add(uint64(len(b.rows)))
	w.l.contents.done(b.texts)
	w.l.view.show(w.row, added)
}

// keep performs periodic tasks: it syncs, removes expired events, and checks whether the files are
// still in place.
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
	}
	switch {
	case !late && !(due && w.overdue()):
		w.l.health.Works(w.l.queue.Size)
	case w.store(ctx, new(batch)) == nil && w.overdue():
		w.ticked = time.Time{} // run again soon: there is more to remove, but waiting items come first
		w.l.queue.Rouse()
	}
}
