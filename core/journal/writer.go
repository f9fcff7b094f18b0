package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// write is the writer: it takes what is queued, in groups that grow with the
// load, and stores it. It returns when the queue is closed and empty, or when
// ctx ends.
func (j *Journal) write(ctx context.Context) {
	for {
		group := j.queue.take(maxBatch)
		if group == nil {
			return
		}
		_ = j.verify(ctx) // if that fails, it is done again before anything is stored
		j.storeGroup(ctx, group)
	}
}

// storeGroup stores a group of items in their order, however long that takes.
func (j *Journal) storeGroup(ctx context.Context, group []*item) {
	pending := make([]*record, 0, len(group))
	for _, it := range group {
		if it.event == nil {
			if len(pending) == 0 {
				j.states.put(it.resource, it.state, j.last)
			} else {
				before := pending[len(pending)-1]
				before.states = append(before.states, it)
			}
			continue
		}
		parts, err := encode(it.event, j.largest())
		if err != nil {
			j.tooLarge.Add(1)
			j.opts.Logger.Error("an event cannot be stored", "err", err)
			it.finish(Entry{}, err)
			continue
		}
		id := it.event.ID
		if id == "" {
			j.unnamed++
			id = event.FormatID(j.instance, j.unnamed)
		} else {
			j.recent.put(it.event)
		}
		for n, data := range parts {
			r := &record{subject: j.subjectOf(it.event), id: id, data: data}
			if n > 0 {
				r.id = fmt.Sprintf("%s.%d", id, n)
			}
			if n == len(parts)-1 {
				r.item = it
			}
			pending = append(pending, r)
		}
	}
	j.storeAll(ctx, pending)
}

// largest is how many bytes an event may have: what the server takes, less the
// headers.
func (j *Journal) largest() int { return int(j.nc.MaxPayload()) - 1024 }

func (i *item) finish(e Entry, err error) {
	if i.done != nil {
		i.done <- outcome{e, err}
	}
}

// storeAll stores the records in order. It gives up what is left only when ctx
// ends.
func (j *Journal) storeAll(ctx context.Context, records []*record) {
	for attempt := 0; len(records) > 0; {
		began := time.Now()
		n, err := j.publish(ctx, records)
		j.stored(records[:n])
		records = records[n:]
		if n > 0 {
			j.took.observe(time.Since(began))
			attempt = 0
			j.works()
		}
		if err == nil {
			continue
		}
		attempt++
		j.fails(err)
		for ctx.Err() == nil {
			if records, err = j.mend(ctx, records, attempt); err == nil {
				break
			}
			attempt++
			j.fails(err)
		}
		if ctx.Err() != nil {
			for _, r := range records {
				j.unsaved.Add(1)
				if r.item != nil {
					r.item.finish(Entry{}, fmt.Errorf("journal: not stored: %w", err))
				}
			}
			return
		}
	}
}

// publish stores records in the log that this process knows.
func (j *Journal) publish(ctx context.Context, records []*record) (int, error) {
	if err := j.verify(ctx); err != nil {
		return 0, err
	}
	n, err := j.pub.publish(ctx, records)
	if j.dir == nil && slices.ContainsFunc(records[:n], func(r *record) bool { return r.seq <= j.last }) {
		j.doubt.Store(true) // numbers only rise; these are of another log, or were stored before
		if err := j.verify(ctx); err != nil {
			return 0, err
		}
	}
	return n, err
}

// stored lets readers see what is in the log now, and then tells who waits.
func (j *Journal) stored(records []*record) {
	for _, r := range records {
		j.last = max(j.last, r.seq)
	}
	j.durable.set(j.last)
	j.appended.Add(uint64(len(records)))
	for _, r := range records {
		if r.item == nil {
			continue
		}
		if res, st, ok := stateOf(r.item.event); ok {
			j.states.put(res, st, r.seq)
		}
		for _, it := range r.states {
			j.states.put(it.resource, it.state, r.seq)
		}
		if r.item.done != nil {
			e := entry(j.Epoch(), r.seq, time.Now(), r.data)
			e.local = r.item.event
			r.item.finish(e, nil)
		}
	}
}

// mend brings the store back after a failed attempt, and returns the records
// that it turns out not to have.
func (j *Journal) mend(ctx context.Context, records []*record, attempt int) ([]*record, error) {
	wait := min(50*time.Millisecond<<min(attempt, 8), 2*time.Second)
	if !pause(ctx, wait) {
		return records, context.Cause(ctx)
	}
	if j.embedded != nil {
		if err := j.dir.probe(); err != nil {
			return records, err
		}
		if err := j.embedded.restart(); err != nil {
			return records, err
		}
		if err := j.reconnected(ctx); err != nil {
			return records, err
		}
	}
	info, err := j.ensure(ctx)
	if err != nil {
		return records, err
	}
	renewed, err := j.check(ctx, info)
	if err != nil {
		return records, err
	}
	if renewed { // what was found in the log that is gone is not in this one
		for _, r := range records {
			r.seq = 0
		}
	}
	wanted := make(map[string]*record, len(records))
	for _, r := range records {
		wanted[r.id] = r
	}
	err = j.scan(ctx, j.last+1, info.State.LastSeq, func(seq uint64, id string) {
		if r, ok := wanted[id]; ok && r.seq == 0 {
			r.seq = seq
		}
	})
	if err != nil {
		return records, err
	}
	// One that is missing between others comes after them now: the newer ones are
	// in the log for good. Batches and a store that stays failed prevent it.
	var found, left []*record
	for _, r := range records {
		if r.seq != 0 {
			found = append(found, r)
		} else {
			left = append(left, r)
		}
	}
	j.stored(found)
	return left, nil
}

// fails notes that storing does not work, and says so once.
func (j *Journal) fails(err error) {
	j.failures.Add(1)
	if errors.Is(err, context.Canceled) {
		return
	}
	if old := j.trouble.Swap(&err); old == nil {
		j.opts.Logger.Error("events cannot be stored; they wait and are tried again", "err", err)
	}
}

// works notes that storing works.
func (j *Journal) works() {
	if old := j.trouble.Swap(nil); old != nil {
		waiting, folded := j.queue.size()
		j.opts.Logger.Info("events are stored again", "waiting", waiting, "folded", folded)
	}
}
