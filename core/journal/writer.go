package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
)

// writer stores queued items. Only its run goroutine uses it, except for queue, doubt and the
// methods suspect and mark.
type writer struct {
	store  *store
	head   *head
	states *stateWriter
	recent *recent
	queue  *queue
	doubt  atomic.Bool // the log may have been replaced: verify must check

	pub      *publisher
	last     uint64 // number of the last event known to be in the log
	boot     string // identifies the run of the operating system
	instance string // identifies this run, for ids of events that have none
	unnamed  uint64 // number of such events
}

func newWriter(s *store, h *head, states *stateWriter, r *recent) *writer {
	return &writer{store: s, head: h, states: states, recent: r, queue: newQueue(s.opts.Queue), boot: bootID(), instance: newEpoch()}
}

// open opens the log.
func (w *writer) open(ctx context.Context) error {
	if err := w.openLog(ctx); err != nil {
		return err
	}
	var err error
	if w.pub, err = newPublisher(w.store); err != nil {
		return err
	}
	w.pub.fault = w.store.fault
	if w.store.embedded == nil {
		w.pub.wait = 2 * time.Second // a leader that died will not answer
	}
	return nil
}

// run stores queued items, in groups that grow with the load. It returns when the queue is
// closed and empty, or when ctx ends.
func (w *writer) run(ctx context.Context) {
	for {
		group := w.queue.take(maxBatch)
		if group == nil {
			return
		}
		_ = w.verify(ctx) // if that fails, it is repeated before anything is stored
		w.storeGroup(ctx, group)
	}
}

// storeGroup stores a group of items in their order, however long that takes.
func (w *writer) storeGroup(ctx context.Context, group []*item) {
	pending := make([]*record, 0, len(group))
	for _, it := range group {
		if it.event == nil {
			if len(pending) == 0 {
				w.states.put(it, w.last)
			} else {
				before := pending[len(pending)-1]
				before.states = append(before.states, it)
			}
			continue
		}
		parts, err := encode(it.event, w.largest())
		if err != nil {
			w.store.counts.tooLarge.Add(1)
			w.store.opts.Logger.Error("cannot store an event", "err", err)
			it.finish(Entry{}, err)
			continue
		}
		id := it.event.ID
		if id == "" {
			w.unnamed++
			id = event.FormatID(w.instance, w.unnamed)
		} else {
			w.recent.put(it.event)
		}
		for n, data := range parts {
			r := &record{subject: w.store.subjects.event(it.event), id: id, data: data}
			if n > 0 {
				r.id = fmt.Sprintf("%s.%d", id, n)
			}
			if n == len(parts)-1 {
				r.item = it
			}
			if r.lease = it.lease; it.lease != nil && w.store.embedded == nil {
				r.fence = w.store.subjects.fence(it.lease.Name)
			}
			pending = append(pending, r)
		}
	}
	w.storeAll(ctx, pending)
}

// largest returns the greatest size of an event: what the server accepts, less the headers.
func (w *writer) largest() int { return int(w.store.nc.MaxPayload()) - 1024 }

func (i *item) finish(e Entry, err error) {
	if i.done != nil {
		i.done <- outcome{e, err}
	}
}

// storeAll stores the records in order. It gives up only when ctx ends.
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
			w.store.counts.took.observe(time.Since(began))
			retry.Reset()
			w.works()
		}
		if err == nil {
			continue
		}
		if refused(err) {
			if records, err = w.held(ctx, records, true); err == nil && backoff.Sleep(ctx, retry.Next()) {
				continue
			}
		}
		w.fails(err)
		for backoff.Sleep(ctx, retry.Next()) {
			if records, err = w.mend(ctx, records); err == nil {
				break
			}
			w.fails(err)
		}
		if ctx.Err() != nil {
			for _, r := range records {
				w.store.counts.unsaved.Add(1)
				if r.item != nil {
					r.item.finish(Entry{}, fmt.Errorf("journal: the event was not stored: %w", err))
				}
			}
			return
		}
	}
}

// publish stores records in the log that this process knows.
func (w *writer) publish(ctx context.Context, records []*record) (int, error) {
	if err := w.verify(ctx); err != nil {
		return 0, err
	}
	n, err := w.pub.publish(ctx, records)
	if w.store.dir == nil && slices.ContainsFunc(records[:n], func(r *record) bool { return r.seq <= w.last }) {
		w.doubt.Store(true) // numbers only rise, so these are of another log, or were stored before
		if err := w.verify(ctx); err != nil {
			return 0, err
		}
	}
	return n, err
}

// stored lets readers see all records now in the log, and then wakes the callers that wait for
// their items.
func (w *writer) stored(records []*record) {
	for _, r := range records {
		w.last = max(w.last, r.seq)
	}
	w.show()
	w.store.counts.appended.Add(uint64(len(records)))
	for _, r := range records {
		if r.item == nil {
			continue
		}
		if res, st, ok := stateOf(r.item.event); ok {
			w.states.put(&item{resource: res, state: st, lease: r.lease}, r.seq)
		}
		for _, it := range r.states {
			w.states.put(it, r.seq)
		}
		if r.item.done != nil {
			e := entry(w.head.id(), r.seq, time.Now(), r.data)
			e.local = r.item.event
			r.item.finish(e, nil)
		}
	}
}

// mend repairs the store after a failed attempt, and returns the records that it does not have.
func (w *writer) mend(ctx context.Context, records []*record) ([]*record, error) {
	if w.store.embedded != nil {
		if err := w.store.dir.probe(); err != nil {
			return records, err
		}
		if err := w.store.embedded.restart(); err != nil {
			return records, err
		}
		if err := w.store.reconnected(ctx); err != nil {
			return records, err
		}
	}
	info, err := w.store.ensure(ctx)
	if err != nil {
		return records, err
	}
	renewed, err := w.check(ctx, info)
	if err != nil {
		return records, err
	}
	if renewed { // the records that were found are not in the new log
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
	// A missing record between found ones is now stored after them, because these stay in the
	// log. Batches, and a store that keeps failing, prevent that.
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

// fails counts a failed attempt, and logs the first in a row.
func (w *writer) fails(err error) {
	w.store.counts.failures.Add(1)
	if errors.Is(err, context.Canceled) {
		return
	}
	if old := w.store.counts.trouble.Swap(&err); old == nil {
		w.store.opts.Logger.Error("events cannot be stored; mcptrack keeps them in memory and tries again", "err", err)
	}
}

// works ends the state of failure that fails began, and logs that as a warning: whoever saw
// the failure at the default level sees its end, too.
func (w *writer) works() {
	if old := w.store.counts.trouble.Swap(nil); old != nil {
		waiting, folded := w.queue.size()
		w.store.opts.Logger.Warn("events are stored again", "waiting", waiting, "folded", folded)
	}
}
