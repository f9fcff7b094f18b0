package natslog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
)

// prefetch bounds the entries requested ahead of a reader. They are held in memory, so it
// bounds the cost of a slow reader.
const prefetch = 4096

// maxEmptyConsumers is the number of consecutive consumers that may yield nothing before
// reading gives up.
const maxEmptyConsumers = 3

// Read implements [journal.Log].
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		l.read(ctx, yield, func(ctx context.Context, r *reader) error {
			b, err := l.Bounds(ctx)
			if r.epoch, r.next, r.to = b.Epoch, max(from, 1), b.Last; err != nil || r.next > r.to {
				return err
			}
			return r.run(ctx)
		})
	}
}

// Follow implements [journal.Log].
func (l *Log) Follow(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		l.read(ctx, yield, func(ctx context.Context, r *reader) error {
			if r.next = max(from, 1); !r.begin(ctx) {
				return context.Cause(ctx)
			}
			return r.run(ctx)
		})
	}
}

// read calls run with a new reader and yields its error.
func (l *Log) read(ctx context.Context, yield func(journal.Entry, error) bool, run func(context.Context, *reader) error) {
	ctx, cancel := l.lifetime(ctx)
	defer cancel()
	if err := ended(ctx, run(ctx, &reader{log: l, yield: yield})); err != nil {
		yield(journal.Entry{}, err)
	}
}

// reader reads the log once.
type reader struct {
	log   *Log
	epoch string // of the log that it reads
	next  uint64 // the next to yield
	to    uint64 // the last to yield; 0: no end
	yield func(journal.Entry, error) bool
}

// begin determines which log there is. It waits while the store is unreachable, and returns false
// when ctx has ended.
func (r *reader) begin(ctx context.Context) bool {
	for {
		b, err := r.log.Bounds(ctx)
		if err == nil {
			r.epoch = b.Epoch
			return true
		}
		if !backoff.Sleep(ctx, 250*time.Millisecond) {
			return false
		}
	}
}

// run yields entries until the end is reached or the consumer stops (nil).
func (r *reader) run(ctx context.Context) error {
	if r.to != 0 && r.to-r.next < direct {
		if more, err := r.few(ctx); err != nil || !more {
			return err
		}
	}
	retry := backoff.New(50*time.Millisecond, 1600*time.Millisecond)
	for r.to == 0 || r.next <= r.to {
		before := r.next
		more, err := r.consume(ctx)
		if err == nil && !more || ctx.Err() != nil || errors.Is(err, journal.ErrEpoch) {
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
		default:
			return fmt.Errorf("event log: read the log: %w", errNoAnswer)
		}
	}
	return nil
}

// bounds asks the store for the bounds of the log that it reads. Everything opened or received
// before the answer then belongs to that log.
func (r *reader) bounds(ctx context.Context) (journal.Bounds, error) {
	b, err := r.log.Bounds(ctx)
	if err == nil && b.Epoch != r.epoch {
		err = journal.ErrEpoch
	}
	return b, err
}

// consume reads with one consumer of the store until that consumer fails.
func (r *reader) consume(ctx context.Context) (more bool, err error) {
	msgs, err := r.log.store.consumeFrom(ctx, r.next)
	if err != nil {
		return true, err
	}
	defer msgs.close()
	if _, err := r.bounds(ctx); err != nil {
		return true, err
	}
	if r.to != 0 && msgs.pending == 0 { // no entry from here on is stored any more
		return r.missing(ctx, r.to, false)
	}
	for stalled := 0; r.to == 0 || r.next <= r.to; {
		m, err := msgs.next(ctx)
		if errors.Is(err, errQuiet) {
			// A consumer on a node that died never delivers again.
			b, err := r.bounds(ctx)
			if stalled++; b.Last < r.next {
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

// few yields the entries that one request to the store returns: usually a reader is only a
// little behind, and needs no consumer. The answer may be incomplete if a node lags or the
// store is damaged.
func (r *reader) few(ctx context.Context) (more bool, err error) {
	found, err := r.log.store.get(ctx, r.next, r.to)
	if err == nil {
		_, err = r.bounds(ctx)
	}
	if err != nil {
		return false, err
	}
	for i, m := range found {
		m.more = i < len(found)-1
		if more, err := r.take(ctx, m); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// take yields one message, and before it the gap, if there is one.
func (r *reader) take(ctx context.Context, m message) (more bool, err error) {
	if m.seq < r.next { // a replaced consumer may begin a little early
		return true, nil
	}
	if r.to != 0 && m.seq > r.to {
		return r.missing(ctx, r.to, false)
	}
	if m.seq > r.next {
		if more, err := r.missing(ctx, m.seq-1, true); err != nil || !more {
			return false, err
		}
	}
	r.next = m.seq + 1
	e, ok := entryOf(r.epoch, m)
	if !ok {
		e = journal.GapEntry(r.epoch, m.seq, m.seq, journal.ReasonDamaged)
	} else {
		e = e.WithEvent(r.log.recent.get(m.id))
	}
	e.More = m.more
	return r.yield(e, nil), nil
}

// missing yields a gap for the entries from r.next to last: one for those that have expired, one
// for those that are damaged. follows says that there is an entry after last.
func (r *reader) missing(ctx context.Context, last uint64, follows bool) (more bool, err error) {
	b, err := r.bounds(ctx)
	if err != nil {
		return false, err
	}
	gap := func(to uint64, reason string) bool {
		e := journal.GapEntry(r.epoch, r.next, to, reason)
		r.next = to + 1
		e.More = follows || r.next <= last
		return r.yield(e, nil)
	}
	if gone := min(last, b.First-1); gone >= r.next && !gap(gone, journal.ReasonRetention) {
		return false, nil
	}
	if r.next <= last {
		r.log.store.health.Damaged(r.next, last)
		return gap(last, journal.ReasonDamaged), nil
	}
	return true, nil
}
