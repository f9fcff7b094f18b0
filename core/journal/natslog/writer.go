package natslog

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

// item is an event, a value to remember, or neither: then it only has its place in the order.
type item = storing.Item[note]

// note is what the writer needs to know about an item.
type note struct {
	lease *Lease // under which it is stored; nil: none is needed
	value value  // to remember; nil: nothing
}

// writer stores queued items. Only its run goroutine uses it, except for queue, doubt and suspect.
type writer struct {
	store  *store
	states *stateWriter
	recent *recent
	queue  *storing.Queue[note]
	doubt  atomic.Bool // the log may have been replaced: verify must check

	pub      *publisher
	last     uint64 // number of the last event known to be in the log
	appended uint64 // number of events that were given an id
}

// open creates or opens the log.
func (w *writer) open(ctx context.Context) error {
	info, err := w.store.ensure(ctx)
	if err != nil {
		return err
	}
	w.take(info)
	w.pub, err = newPublisher(w.store, 2*time.Second) // a dead leader does not respond
	return err
}

// run stores queued items, in groups that grow with the load. It returns when the queue is
// closed and empty, or when ctx ends.
func (w *writer) run(ctx context.Context) {
	for {
		group := w.queue.Take(maxBatch)
		if group == nil {
			return
		}
		_ = w.verify(ctx) // if it fails, it is repeated before anything is stored
		w.storeGroup(ctx, group)
	}
}

// storeGroup stores a group of items in their order, however long that takes.
func (w *writer) storeGroup(ctx context.Context, group []*item) {
	records := make([]*record, 0, len(group))
	for _, it := range group {
		switch {
		case it.Event != nil:
			if name, _, ok := journal.KnownList(it.Event); ok {
				w.storeAll(ctx, records)
				records = records[:0:0]
				w.states.known(ctx, knownList{name: name}.subject())
			}
			more, err := w.records(it)
			if err != nil {
				w.store.health.TooLarge.Add(1)
				w.store.opts.Logger.Error("an event cannot be stored", "err", err)
				it.Finish(journal.Entry{}, err)
			}
			records = append(records, more...)
		case len(records) == 0:
			w.reached(it, w.last)
		default:
			before := records[len(records)-1]
			before.after = append(before.after, it)
		}
	}
	w.storeAll(ctx, records)
}

// records returns what is stored for an event.
func (w *writer) records(it *item) ([]*record, error) {
	subject := w.store.subjects.event(it.Event)
	var lists []value
	for name, items := range journal.KnownLists(it.Event) {
		lists = append(lists, newKnownList(name, items))
	}
	it.Event = journal.WithoutItems(it.Event)
	parts, err := storing.Encode(it.Event, w.store.largest())
	if err != nil {
		return nil, err
	}
	w.appended++
	id := event.FormatID(w.recent.instance, w.appended)
	if len(parts) == 1 {
		w.recent.put(w.appended, it.Event)
	}
	records := make([]*record, len(parts))
	for n, data := range parts {
		records[n] = &record{subject: subject, id: id, data: data, lease: it.Note.lease}
		if n > 0 {
			records[n].id = fmt.Sprintf("%s.%d", id, n)
		}
	}
	last := records[len(records)-1]
	last.item, last.lists, last.whole = it, lists, len(parts) == 1
	return records, nil
}

// reached is called for an item without an event after everything before it, up to event number
// seq, is stored or dropped.
func (w *writer) reached(it *item, seq uint64) {
	if v := it.Note.value; v != nil {
		w.states.put(v, it.Note.lease, w.position(seq, it.Note.lease), true)
	}
	it.Finish(journal.Entry{}, nil)
}

// position returns what a process knows after it has stored event number seq. The holder of a lease
// also knows the events before its fence, which other processes stored.
func (w *writer) position(seq uint64, l *Lease) position {
	at := position{Seq: seq, Epoch: w.store.epoch()}
	if l != nil {
		if fenced := l.fenced(); fenced.Epoch == at.Epoch {
			at.Seq = max(at.Seq, fenced.Seq)
		}
	}
	return at
}

// storeAll stores the records in order. It abandons them only if ctx ends.
func (w *writer) storeAll(ctx context.Context, records []*record) {
	retry := backoff.New(50*time.Millisecond, 2*time.Second)
	for {
		if records, _ = w.held(ctx, records, false); len(records) == 0 {
			return
		}
		began := time.Now()
		n, err := w.publish(ctx, records)
		w.stored(records[:n])
		records = records[n:]
		if n > 0 {
			w.store.health.Synced(time.Since(began))
			retry.Reset()
			w.store.health.Works(w.queue.Size)
		}
		if err == nil {
			continue
		}
		if wrongRevision(err) {
			if records, err = w.held(ctx, records, true); err == nil && backoff.Sleep(ctx, retry.Next()) {
				continue
			}
		}
		w.store.health.Fails(err)
		for backoff.Sleep(ctx, retry.Next()) {
			if records, err = w.mend(ctx, records); err == nil {
				break
			}
			w.store.health.Fails(err)
		}
		if ctx.Err() != nil {
			w.giveUp(records, err)
			return
		}
	}
}

// held returns the records whose leases are not lost. With ask it asks the store about every lease,
// because the store rejected a record.
func (w *writer) held(ctx context.Context, records []*record, ask bool) ([]*record, error) {
	known := map[*Lease]bool{}
	kept := records[:0:0]
	for _, r := range records {
		if r.lease == nil {
			kept = append(kept, r)
			continue
		}
		held, ok := known[r.lease]
		if !ok {
			held = !r.lease.isLost()
			if held && ask {
				var err error
				if held, err = r.lease.check(ctx); err != nil {
					return records, err
				}
			}
			known[r.lease] = held
		}
		if held {
			kept = append(kept, r)
			continue
		}
		w.store.health.Fenced.Add(1)
		if r.item != nil {
			r.item.Finish(journal.Entry{}, fmt.Errorf("event log: %w", ErrLeaseLost))
		}
		for _, it := range r.after {
			w.reached(it, w.last)
		}
	}
	return kept, nil
}

// giveUp fails the callers that wait for records that will not be stored.
func (w *writer) giveUp(records []*record, err error) {
	err = fmt.Errorf("event log: the event was not stored: %w", err)
	for _, r := range records {
		if r.item != nil {
			w.store.health.Unsaved.Add(1)
			r.item.Finish(journal.Entry{}, err)
		}
		for _, it := range r.after {
			it.Finish(journal.Entry{}, err)
		}
	}
}

// publish stores records in the log that this process knows.
func (w *writer) publish(ctx context.Context, records []*record) (int, error) {
	if err := w.verify(ctx); err != nil {
		return 0, err
	}
	n, err := w.pub.publish(ctx, records)
	if slices.ContainsFunc(records[:n], func(r *record) bool { return r.seq <= w.last }) {
		w.doubt.Store(true) // numbers only rise: these belong to another log, or were stored before
		if err := w.verify(ctx); err != nil {
			return 0, err
		}
	}
	return n, err
}

// stored remembers what stored records tell, and wakes the callers that wait for their items.
func (w *writer) stored(records []*record) {
	for _, r := range records {
		w.last = max(w.last, r.seq)
	}
	w.store.health.Stored.Add(uint64(len(records)))
	for _, r := range records {
		if r.item == nil {
			continue
		}
		at := w.position(r.seq, nil)
		if res, st, ok := journal.Known(r.item.Event); ok {
			w.states.put(newResourceState(res, st), nil, at, false) // the event is stored: no lease is needed
		}
		for _, list := range r.lists {
			w.states.put(list, nil, at, false)
		}
		if r.item.Done != nil {
			e := journal.NewEntry(at.Epoch, r.seq, time.Now(), r.data)
			if r.whole {
				e = e.WithEvent(r.item.Event)
			}
			r.item.Finish(e, nil)
		}
		for _, it := range r.after {
			w.reached(it, r.seq)
		}
	}
}

// mend opens the store again after a failed attempt, and returns the records that are not stored.
func (w *writer) mend(ctx context.Context, records []*record) ([]*record, error) {
	info, err := w.store.ensure(ctx)
	if err != nil {
		return records, err
	}
	renewed, err := w.check(ctx, info)
	if err != nil {
		return records, err
	}
	if renewed { // the new log has none of the found records
		for _, r := range records {
			r.seq = 0
		}
	}
	wanted := make(map[string]*record, len(records))
	for _, r := range records {
		wanted[r.id] = r
	}
	err = w.store.scan(ctx, w.last+1, info.State.LastSeq, func(seq uint64, id string) {
		if r, ok := wanted[id]; ok && r.seq == 0 {
			r.seq = seq
		}
	})
	if err != nil {
		return records, err
	}
	// A missing record between found ones is now stored after them, because they stay in the log.
	// Batches prevent that.
	var found, left []*record
	for _, r := range records {
		if r.seq != 0 {
			found = append(found, r)
		} else {
			left = append(left, r)
		}
	}
	w.stored(found)
	return left, nil
}

// check compares the log with what this process knows of it, after a failure and whenever the log
// may have been replaced. If the log may have lost events that readers saw, check begins a new
// epoch: otherwise their numbers would be used again. It reports whether the log now has another
// epoch.
func (w *writer) check(ctx context.Context, info *jetstream.StreamInfo) (renewed bool, err error) {
	if w.shorter(info) {
		if info, err = w.lookAgain(ctx, info); err != nil {
			return false, err
		}
	}
	if w.shorter(info) {
		w.store.health.Damages.Add(1)
		w.store.opts.Logger.Error("the event log has lost its last events; a new epoch begins", "last", info.State.LastSeq, "was", w.last)
		if info, err = w.store.renew(ctx, info); err != nil {
			return false, err
		}
		renewed = true
	}
	if info.Config.Metadata[epochKey] == w.store.epoch() {
		return false, nil
	}
	if !renewed {
		w.store.opts.Logger.Warn("the event log was replaced; a new epoch begins", "last", info.State.LastSeq, "was", w.last)
	}
	w.take(info)
	return true, nil
}

// shorter reports whether the log has fewer events than when it was last written or read.
func (w *writer) shorter(info *jetstream.StreamInfo) bool {
	return info.State.LastSeq < w.last && info.Config.Metadata[epochKey] == w.store.epoch()
}

// lookAgain reads the state of the log for some seconds while it is shorter than it was: a new
// leader may not have applied all stored events yet.
func (w *writer) lookAgain(ctx context.Context, info *jetstream.StreamInfo) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout/2)
	defer cancel()
	for w.shorter(info) && backoff.Sleep(ctx, 100*time.Millisecond) {
		again, err := w.store.info(ctx, w.store.opts.Stream)
		if err == nil {
			info = again
		} else if ctx.Err() == nil {
			return nil, err
		}
	}
	return info, nil
}

// suspect makes the writer check whether the log is still the same.
func (w *writer) suspect() {
	w.doubt.Store(true)
	w.queue.Rouse()
}

// verify calls check if there is reason to: another process may replace the log although nothing
// fails here.
func (w *writer) verify(ctx context.Context) error {
	if !w.doubt.Swap(false) {
		return nil
	}
	info, err := w.store.info(ctx, w.store.opts.Stream)
	if err == nil {
		_, err = w.check(ctx, info)
	}
	if err != nil {
		w.doubt.Store(true)
		return fmt.Errorf("event log: check whether the event log is still the same: %w", err)
	}
	return nil
}

// take makes the store's current log the log of this process.
func (w *writer) take(info *jetstream.StreamInfo) {
	epoch := info.Config.Metadata[epochKey]
	w.store.current.Store(&epoch)
	w.last = info.State.LastSeq
}

// recent keeps the last events of this process by their message ids, so that its readers also get
// the members that are not stored.
type recent struct {
	instance string // the first part of this process's message ids
	slots    [4096]atomic.Pointer[appended]
}

type appended struct {
	n     uint64
	event *event.Event
}

// put keeps the event that is stored with the id instance-n.
func (r *recent) put(n uint64, e *event.Event) {
	r.slots[n%uint64(len(r.slots))].Store(&appended{n, e})
}

// get returns nil if the event is not there.
func (r *recent) get(id string) *event.Event {
	instance, n, err := event.ParseID(id)
	if err != nil || instance != r.instance {
		return nil
	}
	if a := r.slots[n%uint64(len(r.slots))].Load(); a != nil && a.n == n {
		return a.event
	}
	return nil
}
