package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Reasons of gaps.
const (
	ReasonRetention = "retention" // older than what is kept
	ReasonDamaged   = "damaged"   // the store could not read it back, or it is no event
	ReasonEpoch     = "epoch"     // the id is of another log
	ReasonAhead     = "ahead"     // the id is of the future
	ReasonInvalid   = "invalid"   // no id at all
)

// prefetch is how many entries are asked for ahead of a reader. They wait in
// memory, so it bounds what a slow reader costs.
const prefetch = 4096

// Read returns the entries from seq (0: the first) to the last one there is
// now, oldest first. Where entries are missing it yields one Entry with Gap. A
// failure is yielded once, as the last.
func (j *Journal) Read(ctx context.Context, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		b, err := j.Bounds(ctx)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		if max(from, 1) <= b.Last {
			j.read(ctx, b.Epoch, max(from, 1), b.Last, yield)
		}
	}
}

// Follow returns the entries from seq (0: the first) on and then every new one
// as soon as it is durable, without a hole between the two. It ends with an
// error: the cause of ctx, [ErrClosed], or [ErrEpoch].
func (j *Journal) Follow(ctx context.Context, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		j.read(ctx, "", max(from, 1), 0, yield)
	}
}

// reader is one pass over the log.
type reader struct {
	j     *Journal
	epoch string // "": of the log that there is when it begins
	next  uint64 // the next to yield
	to    uint64 // the last to yield; 0: no end
	yield func(Entry, error) bool
}

func (j *Journal) read(ctx context.Context, epoch string, from, to uint64, yield func(Entry, error) bool) {
	ctx, cancel := j.lifetime(ctx)
	defer cancel()
	r := &reader{j: j, epoch: epoch, next: from, to: to, yield: yield}
	if err := r.run(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		yield(Entry{}, err)
	}
}

// run yields until the end is reached or the consumer has enough (nil).
func (r *reader) run(ctx context.Context) error {
	if r.epoch == "" {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	if r.to != 0 && r.to-r.next < direct {
		if more, err := r.few(ctx); err != nil || !more {
			return err
		}
	}
	for idle := 0; r.to == 0 || r.next <= r.to; {
		before := r.next
		more, err := r.pass(ctx)
		if err == nil && !more || ctx.Err() != nil || errors.Is(err, ErrEpoch) || errors.Is(err, ErrClosed) {
			return err
		}
		if idle++; r.next > before {
			idle = 0
		}
		switch {
		case r.to == 0 || idle < patience:
			pause(ctx, 50*time.Millisecond<<min(idle, 5)) // the store is away; it will be back
		case err != nil:
			return err
		case r.j.embedded == nil:
			return fmt.Errorf("journal: read the log: %w", errNoAnswer)
		default: // a store that is here and does not give it has it no more
			if more, err := r.missing(ctx, r.to); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// begin finds out which log there is; it waits for a store that is away.
func (r *reader) begin(ctx context.Context) error {
	if r.j.embedded != nil {
		r.epoch = r.j.Epoch()
		return nil
	}
	for {
		b, err := r.j.Bounds(ctx)
		if err == nil {
			r.epoch = b.Epoch
			return nil
		}
		if !pause(ctx, 250*time.Millisecond) {
			return err
		}
	}
}

// same fails if the log is not the one that the reader reads. On a cluster the store
// is asked: what was opened or got before its answer is of that log then.
func (r *reader) same(ctx context.Context) error {
	epoch := r.j.Epoch()
	if r.j.embedded == nil {
		b, err := r.j.Bounds(ctx)
		if err != nil {
			return err
		}
		epoch = b.Epoch
	}
	if epoch != r.epoch {
		return ErrEpoch
	}
	return nil
}

// patience is how many passes may yield nothing before reading up to an end is
// given up.
const patience = 3

// pass reads with one consumer of the store, until that one is no good any more.
func (r *reader) pass(ctx context.Context) (more bool, err error) {
	msgs, err := r.j.open(ctx, r.next)
	if err != nil {
		return true, err
	}
	defer msgs.close()
	if err := r.same(ctx); err != nil {
		return true, err
	}
	if r.to != 0 && msgs.pending == 0 { // nothing is kept from here on
		return r.missing(ctx, r.to)
	}
	for stalled := 0; r.to == 0 || r.next <= r.to; {
		m, err := msgs.next(ctx)
		if errors.Is(err, errQuiet) {
			late, err := r.late(ctx)
			if stalled++; !late {
				stalled = 0
			}
			if err != nil || stalled == 2 {
				return true, err
			}
			continue
		}
		if err != nil {
			return true, err
		}
		stalled = 0
		if more, err := r.take(ctx, m); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// late is asked when nothing came for a while: should it have? A consumer that
// was on a node that died says nothing for ever.
func (r *reader) late(ctx context.Context) (bool, error) {
	if r.j.embedded != nil {
		return r.j.durable.get() >= r.next, r.same(ctx)
	}
	b, err := r.j.Bounds(ctx)
	if err == nil && b.Epoch != r.epoch {
		err = ErrEpoch
	}
	return b.Last >= r.next, err
}

// few yields what one question to the store gets: a consumer that missed a
// little is the usual case and needs no consumer in the store. The answer may
// fall short, from a node that lags or a store that is damaged.
func (r *reader) few(ctx context.Context) (more bool, err error) {
	found, err := r.j.get(ctx, r.next, r.to)
	if err == nil {
		err = r.same(ctx)
	}
	if err != nil {
		return false, err
	}
	for _, m := range found {
		if more, err := r.take(ctx, m); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// take yields one message and the gap before it, if there is one.
func (r *reader) take(ctx context.Context, m message) (more bool, err error) {
	seq := m.seq
	if seq < r.next { // a consumer that was made anew begins a little early
		return true, nil
	}
	if r.to != 0 && seq > r.to {
		return r.missing(ctx, r.to)
	}
	if r.j.embedded != nil {
		if err := r.durable(ctx, seq); err != nil {
			return false, err
		}
	}
	if seq > r.next {
		if more, err := r.missing(ctx, seq-1); err != nil || !more {
			return false, err
		}
	}
	r.next = seq + 1
	if r.j.embedded == nil {
		m.data = tame(m.data)
	}
	if !kept(m.data) {
		return r.yield(gapEntry(r.epoch, seq, seq, ReasonDamaged), nil), nil
	}
	e := entry(r.epoch, seq, m.stored, m.data)
	e.local = r.j.recent.get(m.id)
	return r.yield(e, nil), nil
}

// durable waits until the entry is, in the log that the reader reads.
func (r *reader) durable(ctx context.Context, seq uint64) error {
	for {
		ok, moved := r.j.durable.reached(seq)
		if err := r.same(ctx); ok || err != nil { // the epoch is set before the mark
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// missing yields that the entries up to last are not there.
func (r *reader) missing(ctx context.Context, last uint64) (more bool, err error) {
	b, err := r.j.Bounds(ctx)
	if err == nil && b.Epoch != r.epoch {
		err = ErrEpoch
	}
	if err != nil {
		return false, err
	}
	if gone := min(last, b.First-1); gone >= r.next {
		e := gapEntry(r.epoch, r.next, gone, ReasonRetention)
		r.next = gone + 1
		if !r.yield(e, nil) {
			return false, nil
		}
	}
	if r.next <= last {
		r.j.damaged(r.next, last)
		e := gapEntry(r.epoch, r.next, last, ReasonDamaged)
		r.next = last + 1
		return r.yield(e, nil), nil
	}
	return true, nil
}
