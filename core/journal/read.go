package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// Reasons of gaps.
const (
	ReasonRetention = "retention" // older than the retention
	ReasonDamaged   = "damaged"   // the store could not read it back, or it is not an event
	ReasonEpoch     = "epoch"     // the id is of another log
	ReasonAhead     = "ahead"     // the id is higher than any stored one
	ReasonInvalid   = "invalid"   // not an id
)

// prefetch bounds the entries requested ahead of a reader. They are held in memory, so it
// bounds the cost of a slow reader.
const prefetch = 4096

// Read yields the entries from number from (0: the first) up to the last one when it is
// called. Missing entries are reported as entries with Gap, one for each reason. An error
// is yielded last and ends the sequence.
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

// Follow returns the entries from number from (0: the first) on and then every new one
// as soon as it is durable, without a hole between the two. It ends with an
// error: the cause of ctx, [ErrClosed], or [ErrEpoch].
func (j *Journal) Follow(ctx context.Context, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		j.read(ctx, "", max(from, 1), 0, yield)
	}
}

// reader reads the log once.
type reader struct {
	j     *Journal
	epoch string // "": that of the log when reading begins
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

// run yields entries until the end is reached or the consumer stops (nil).
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
	retry := backoff.New(50*time.Millisecond, 1600*time.Millisecond)
	for r.to == 0 || r.next <= r.to {
		before := r.next
		more, err := r.consume(ctx)
		if err == nil && !more || ctx.Err() != nil || errors.Is(err, ErrEpoch) || errors.Is(err, ErrClosed) {
			return err
		}
		if r.next > before {
			retry.Reset()
		}
		wait := retry.Next()
		switch {
		case r.to == 0 || retry.Failures() <= maxEmptyConsumers:
			backoff.Sleep(ctx, wait) // the store is unreachable for now
		case err != nil:
			return err
		case r.j.store.embedded == nil:
			return fmt.Errorf("journal: read the log: %w", errNoAnswer)
		default: // the entry in this process's store was lost
			if more, err := r.missing(ctx, r.to); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// begin determines which log there is; it waits while the store is unreachable.
func (r *reader) begin(ctx context.Context) error {
	if r.j.store.embedded != nil {
		r.epoch = r.j.Epoch()
		return nil
	}
	for {
		b, err := r.j.Bounds(ctx)
		if err == nil {
			r.epoch = b.Epoch
			return nil
		}
		if !backoff.Sleep(ctx, 250*time.Millisecond) {
			return err
		}
	}
}

// same fails if the log is not the one that the reader reads. On a cluster it asks the store:
// everything opened or received before the answer then belongs to that log.
func (r *reader) same(ctx context.Context) error {
	epoch := r.j.Epoch()
	if r.j.store.embedded == nil {
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

// maxEmptyConsumers is the number of consecutive consumers that may yield nothing before
// reading gives up.
const maxEmptyConsumers = 3

// consume reads with one consumer of the store until that consumer fails.
func (r *reader) consume(ctx context.Context) (more bool, err error) {
	msgs, err := r.j.store.consumeFrom(ctx, r.next)
	if err != nil {
		return true, err
	}
	defer msgs.close()
	if err := r.same(ctx); err != nil {
		return true, err
	}
	if r.to != 0 && msgs.pending == 0 { // no entry from here on is stored any more
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

// late is called when no message came for a while, and reports whether one should have: a
// consumer on a node that died never delivers again.
func (r *reader) late(ctx context.Context) (bool, error) {
	if r.j.store.embedded != nil {
		return r.j.head.durable.get() >= r.next, r.same(ctx)
	}
	b, err := r.j.Bounds(ctx)
	if err == nil && b.Epoch != r.epoch {
		err = ErrEpoch
	}
	return b.Last >= r.next, err
}

// few yields the entries that one request to the store returns: usually a reader is only a
// little behind, and needs no consumer. The answer may be incomplete if a node lags or the
// store is damaged.
func (r *reader) few(ctx context.Context) (more bool, err error) {
	found, err := r.j.store.get(ctx, r.next, r.to)
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

// take yields one message, and before it the gap, if there is one.
func (r *reader) take(ctx context.Context, m message) (more bool, err error) {
	seq := m.seq
	if seq < r.next { // a replaced consumer may begin a little early
		return true, nil
	}
	if r.to != 0 && seq > r.to {
		return r.missing(ctx, r.to)
	}
	if r.j.store.embedded != nil {
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
	if r.j.store.embedded == nil {
		m.data = sanitize(m.data)
	}
	if !kept(m.data) {
		return r.yield(gapEntry(r.epoch, seq, seq, ReasonDamaged), nil), nil
	}
	e := entry(r.epoch, seq, m.stored, m.data)
	e.local = r.j.recent.get(m.id)
	return r.yield(e, nil), nil
}

// durable waits until the entry is durable in the log that the reader reads.
func (r *reader) durable(ctx context.Context, seq uint64) error {
	for {
		ok, moved := r.j.head.durable.reached(seq)
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

// missing yields a gap for the entries from r.next to last: one for those that have
// expired, one for those that are damaged.
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
		r.j.store.counts.damaged(r.j.store.opts.Logger, r.next, last)
		e := gapEntry(r.epoch, r.next, last, ReasonDamaged)
		r.next = last + 1
		return r.yield(e, nil), nil
	}
	return true, nil
}
