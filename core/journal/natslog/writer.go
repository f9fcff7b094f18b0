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

// item is an element of the writer's queue: an event, or a value to be stored. An item with neither
// only marks a place in the order.
type item = storing.Item[note]

// note contains the additional data that the writer needs for an item.
type note struct {
	lease *Lease // lease that must be held to store the item; nil if none
	value value  // state or list to store; nil if the item has none
}

// writer stores queued items. Only its run goroutine may use it, except for the fields queue and
// doubt and the method suspect.
type writer struct {
	store  *store
	states *stateWriter
	recent *recent
	queue  *storing.Queue[note]
	doubt  atomic.Bool // set if the log may have been replaced, so that verify checks it

	pub      *publisher
	last     uint64 // number of the last event that is known to be in the log
	appended uint64 // number of events that were assigned a message id
}

// open opens the log. It creates the log if necessary.
func (w *writer) open(ctx context.Context) error {
	info, err := w.store.ensure(ctx)
	if err != nil {
		return err
	}
	w.take(info)
	return nil
}

// run stores queued items in groups, which become larger under load. It returns when the queue is
// closed and empty, or when ctx ends.
func (w *writer) run(ctx context.Context) {
	for {
		group := w.queue.Take(maxBatch)
		if group == nil {
			return
		}
		_ = w.verify(ctx) // if this fails, it is repeated before anything is stored
		w.storeGroup(ctx, group)
	}
}

// storeGroup stores a group of items in order. It retries until it succeeds or ctx ends.
func (w *writer) storeGroup(ctx context.Context, group []*item) {
	records := make([]*record, 0, len(group))
	for _, it := range group {
		switch {
		case it.Event != nil:
			if _, _, ok := journal.KnownList(it.Event); ok {
				// A change can later be applied only to a list that is stored.
				w.storeAll(ctx, records)
				records = records[:0:0]
				wait, done := context.WithTimeout(ctx, callTimeout)
				_ = w.states.settle(wait) // after the timeout, the log continues
				done()
			}
			more, err := w.records(it)
			if err != nil {
				w.store.health.TooLarge.Add(1)
				w.store.opts.Logger.Error("an event cannot be stored and is dropped", "err", err)
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

// records returns the records to store for the event in an item.
func (w *writer) records(it *item) ([]*record, error) {
	subject := w.store.subjects.event(it.Event)
	var lists []value
	for name, items := range journal.KnownLists(it.Event) {
		lists = append(lists, newKnownList(name, items))
	}
	it.Event = journal.WithoutDefinitions(it.Event)
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
	last.item, last.lists = it, lists
	return records, nil
}

// reached handles an item without an event, after all items before it have been stored or dropped.
// seq is the number of the last event stored before it.
func (w *writer) reached(it *item, seq uint64) {
	if v := it.Note.value; v != nil {
		w.states.put(v, it.Note.lease, w.position(seq, it.Note.lease))
	}
	it.Finish(nil)
}

// position returns the position that a value reflects if it was queued after event number seq. A
// process that holds a lease has also read the events that other processes stored before its fence,
// so the position is never before the fence.
func (w *writer) position(seq uint64, l *Lease) position {
	at := position{Seq: seq, Epoch: w.store.epoch()}
	if l != nil {
		if fenced := l.fenced(); fenced.Epoch == at.Epoch {
			at.Seq = max(at.Seq, fenced.Seq)
		}
	}
	return at
}

// storeAll stores the records in order. It retries until it succeeds, and gives up only if ctx
// ends.
func (w *writer) storeAll(ctx context.Context, records []*record) {
	retry := backoff.New(50*time.Millisecond, 2*time.Second)
	for {
		if records = w.held(records); len(records) == 0 {
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
			if err = checkLeases(ctx, records); err == nil && backoff.Sleep(ctx, retry.Next()) {
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

// checkLeases asks the store about the leases of the records, because it rejected one of them. Leases that
// another process has taken are then lost.
func checkLeases(ctx context.Context, records []*record) error {
	checked := map[*Lease]bool{nil: true}
	for _, r := range records {
		if !checked[r.lease] {
			if err := r.lease.check(ctx); err != nil {
				return err
			}
			checked[r.lease] = true
		}
	}
	return nil
}

// held drops the records whose leases are lost, and returns the others.
func (w *writer) held(records []*record) []*record {
	kept := records[:0:0]
	for _, r := range records {
		if r.lease == nil || !r.lease.isLost() {
			kept = append(kept, r)
			continue
		}
		w.store.health.Fenced.Add(1)
		for _, it := range r.after {
			w.reached(it, w.last)
		}
	}
	return kept
}

// giveUp reports err to the callers that wait for records that will not be stored.
func (w *writer) giveUp(records []*record, err error) {
	err = fmt.Errorf("event log: the event was not stored: %w", err)
	for _, r := range records {
		if r.item != nil {
			w.store.health.Unsaved.Add(1)
		}
		for _, it := range r.after {
			it.Finish(err)
		}
	}
}

// publish stores the first records, unless the log was replaced. It returns how many it stored.
func (w *writer) publish(ctx context.Context, records []*record) (int, error) {
	if err := w.verify(ctx); err != nil {
		return 0, err
	}
	n, err := w.pub.publish(ctx, records)
	if slices.ContainsFunc(records[:n], func(r *record) bool { return r.seq <= w.last }) {
		w.doubt.Store(true) // numbers always rise, so these records are in another log or had been stored before
		if err := w.verify(ctx); err != nil {
			return 0, err
		}
	}
	return n, err
}

// stored queues the states and lists that the stored records report, and handles the items without an event
// that come after them.
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
			w.states.put(newResourceState(res, st), nil, at) // no lease needed, because the event is already stored
		}
		for _, list := range r.lists {
			w.states.put(list, nil, at)
		}
		for _, it := range r.after {
			w.reached(it, r.seq)
		}
	}
}

// mend opens the store again after a failed attempt. It returns the records that are not in the log
// and must still be stored.
func (w *writer) mend(ctx context.Context, records []*record) ([]*record, error) {
	info, err := w.store.ensure(ctx)
	if err != nil {
		return records, err
	}
	renewed, err := w.check(ctx, info)
	if err != nil {
		return records, err
	}
	if renewed { // the new log contains none of the records that were found
		for _, r := range records {
			r.seq = 0
		}
	}
	wanted := make(map[string]*record, len(records))
	for _, r := range records {
		wanted[r.id] = r
	}
	_, err = w.store.each(ctx, w.store.opts.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: w.last + 1, HeadersOnly: true,
	}, func(m message) bool {
		if r, ok := wanted[m.id()]; ok && r.seq == 0 {
			r.seq = m.seq
		}
		return m.seq < info.State.LastSeq
	})
	if err != nil {
		return records, fmt.Errorf("event log: look up the stored events: %w", err)
	}
	// If a record between two stored ones is missing, it can only be stored after them. Batches
	// prevent that case.
	var found, left []*record
	for _, r := range records {
		if r.seq != 0 {
			found = append(found, r)
		} else {
			left = append(left, r)
		}
	}
	if len(found) > 0 { // the store is slow, not down
		w.pub.wait = min(2*w.pub.wait, callTimeout)
	}
	w.stored(found)
	return left, nil
}

// check compares the log with what this process last saw of it, after a failure and whenever the
// log may have been replaced. If the log may have lost events that readers saw, check starts a new
// epoch, because otherwise new events would reuse the ids of the lost events. It reports whether
// the epoch has changed.
func (w *writer) check(ctx context.Context, info *jetstream.StreamInfo) (renewed bool, err error) {
	// A new leader may not have applied all stored events yet.
	again, cancel := context.WithTimeout(ctx, callTimeout/2)
	defer cancel()
	for w.shorter(info) && backoff.Sleep(again, 100*time.Millisecond) {
		if info, err = w.store.info(ctx, w.store.opts.Stream); err != nil {
			return false, err
		}
	}
	if w.shorter(info) {
		w.store.health.Damages.Add(1)
		w.store.opts.Logger.Error("the event log has lost its last events; starting a new epoch", "last", info.State.LastSeq, "was", w.last)
		if info, err = w.store.renew(ctx, info); err != nil {
			return false, err
		}
		renewed = true
	}
	if info.Config.Metadata[epochKey] == w.store.epoch() {
		return false, nil
	}
	if !renewed {
		w.store.opts.Logger.Warn("the event log was replaced; starting a new epoch", "last", info.State.LastSeq, "was", w.last)
	}
	w.take(info)
	return true, nil
}

// shorter reports whether the log now has fewer events than when this process last wrote or read
// it.
func (w *writer) shorter(info *jetstream.StreamInfo) bool {
	return info.State.LastSeq < w.last && info.Config.Metadata[epochKey] == w.store.epoch()
}

// suspect makes the writer check whether the log was replaced.
func (w *writer) suspect() {
	w.doubt.Store(true)
	w.queue.Rouse()
}

// verify calls check if there is a reason to. That is necessary even without a failure, because
// another process may replace the log.
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
		return fmt.Errorf("event log: check whether the log was replaced: %w", err)
	}
	return nil
}

// take adopts the log in info as the log that this process writes.
func (w *writer) take(info *jetstream.StreamInfo) {
	epoch := info.Config.Metadata[epochKey]
	w.store.current.Store(&epoch)
	w.last = info.State.LastSeq
}

// recent keeps the last events that this process stored, by message id, so that readers in this
// process also receive the fields that are not stored.
type recent struct {
	instance string // prefix of the message ids of this process
	slots    [4096]atomic.Pointer[appended]
}

type appended struct {
	n     uint64
	event *event.Event
}

// put remembers the event that is stored with the message id instance-n.
func (r *recent) put(n uint64, e *event.Event) {
	r.slots[n%uint64(len(r.slots))].Store(&appended{n, e})
}

// get returns the event with the given message id, or nil if it is no longer remembered.
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
