package natslog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

// prefetch bounds the entries that are requested ahead of a reader and held in memory: the cost of
// a slow reader.
const prefetch = 4096

// maxEmptyConsumers is the number of consecutive consumers that may yield nothing before reading
// fails.
const maxEmptyConsumers = 3

func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return l.life.Iterate(ctx, func(ctx context.Context, yield func(journal.Entry, error) bool) error {
		b, err := l.Bounds(ctx)
		r := &reader{log: l, epoch: b.Epoch, next: max(from, 1), to: b.Last, yield: yield}
		if err != nil || r.next > r.to {
			return err
		}
		return r.run(ctx)
	})
}

func (l *Log) Follow(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return l.life.Iterate(ctx, func(ctx context.Context, yield func(journal.Entry, error) bool) error {
		r := &reader{log: l, next: max(from, 1), yield: yield}
		if !r.begin(ctx) {
			return context.Cause(ctx)
		}
		return r.run(ctx)
	})
}

// reader reads the log once.
type reader struct {
	log   *Log
	epoch string // of the log that it reads
	next  uint64 // the next to yield
	to    uint64 // the last to yield; 0: no end
	yield func(journal.Entry, error) bool
}

// begin determines the current log. It waits while the store is unreachable, and returns false if
// ctx has ended.
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

// run yields entries until the end is reached.
func (r *reader) run(ctx context.Context) error {
	if r.to != 0 && r.to-r.next < direct {
		if err := r.few(ctx); err != nil {
			return err
		}
	}
	retry := backoff.New(50*time.Millisecond, 1600*time.Millisecond)
	for r.to == 0 || r.next <= r.to {
		before := r.next
		err := r.consume(ctx)
		if ctx.Err() != nil || errors.Is(err, journal.ErrEpoch) || errors.Is(err, storing.ErrStop) {
			return err
		}
		if r.next > before {
			retry.Reset()
		}
		wait := retry.Next()
		switch {
		case r.to == 0 || retry.Failures() <= maxEmptyConsumers:
			backoff.Sleep(ctx, wait) // the store is unreachable
		case err != nil:
			return err
		default:
			return fmt.Errorf("event log: read the log: %w", errNoAnswer)
		}
	}
	return nil
}

// bounds asks the store for the bounds of the log of this reader. Everything opened or received
// before the response belongs to that log.
func (r *reader) bounds(ctx context.Context) (journal.Bounds, error) {
	b, err := r.log.Bounds(ctx)
	if err == nil && b.Epoch != r.epoch {
		err = journal.ErrEpoch
	}
	return b, err
}

// consume reads with one consumer of the store until the end, or until that consumer fails.
func (r *reader) consume(ctx context.Context) error {
	msgs, err := r.log.store.consumeFrom(ctx, r.next)
	if err != nil {
		return err
	}
	defer msgs.close()
	if _, err := r.bounds(ctx); err != nil {
		return err
	}
	if r.to != 0 && msgs.pending == 0 { // the rest is no longer stored
		return r.missing(ctx, r.to, false)
	}
	for stalled := 0; r.to == 0 || r.next <= r.to; {
		m, err := msgs.next(ctx)
		if errors.Is(err, errQuiet) {
			// A consumer on a dead node never delivers again.
			b, err := r.bounds(ctx)
			if stalled++; b.Last < r.next {
				stalled = 0
			}
			if err != nil || stalled == 2 {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		stalled = 0
		if err := r.take(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// few yields the entries that one request to the store returns: a reader is usually only a little
// behind and needs no consumer. The response may be incomplete if a node lags or the store is
// damaged.
func (r *reader) few(ctx context.Context) error {
	found, err := r.log.store.get(ctx, r.next, r.to)
	if err == nil {
		_, err = r.bounds(ctx)
	}
	if err != nil {
		return err
	}
	for i, m := range found {
		m.more = i < len(found)-1
		if err := r.take(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// take yields one message, after the gap before it, if any.
func (r *reader) take(ctx context.Context, m message) error {
	if m.seq < r.next { // a replaced consumer may begin a little early
		return nil
	}
	if r.to != 0 && m.seq > r.to {
		return r.missing(ctx, r.to, false)
	}
	if m.seq > r.next {
		if err := r.missing(ctx, m.seq-1, true); err != nil {
			return err
		}
	}
	e, ok := entryOf(r.epoch, m)
	if !ok {
		e = journal.GapEntry(r.epoch, m.seq, m.seq, journal.ReasonDamaged)
	} else {
		e = e.WithEvent(r.log.recent.get(m.id))
	}
	return r.pass(e, m.more)
}

// missing yields the gaps in place of the entries from r.next to last. more says that an entry
// follows last.
func (r *reader) missing(ctx context.Context, last uint64, more bool) error {
	b, err := r.bounds(ctx)
	if err != nil {
		return err
	}
	for _, gap := range r.log.store.health.Missing(r.epoch, r.next, b.First, last) {
		if err := r.pass(gap, more || gap.Seq < last); err != nil {
			return err
		}
	}
	return nil
}

// pass yields an entry.
func (r *reader) pass(e journal.Entry, more bool) error {
	r.next, e.More = e.Seq+1, more
	if !r.yield(e, nil) {
		return storing.ErrStop
	}
	return nil
}

// Select implements [journal.Log]. The store does the filtering.
func (l *Log) Select(ctx context.Context, sel journal.Selection) iter.Seq2[journal.Entry, error] {
	return l.life.Iterate(ctx, func(ctx context.Context, yield func(journal.Entry, error) bool) error {
		b, err := l.Bounds(ctx)
		if err != nil || b.Last < b.First {
			return err
		}
		cfg := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubjects: l.store.subjects.selected(sel)}
		if !sel.After.IsZero() {
			cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &sel.After
		}
		return retried(ctx, func() error {
			return l.store.each(ctx, l.store.opts.Stream, cfg, func(m message) bool {
				if m.seq > b.Last {
					return false
				}
				// A retry reads what follows.
				cfg.DeliverPolicy, cfg.OptStartTime, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, m.seq+1
				e, ok := entryOf(b.Epoch, m)
				return !ok || yield(e, nil)
			})
		})
	})
}
