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

// prefetch limits the number of entries that are requested before the reader needs them. They are
// held in memory, so this limits the memory that a slow reader uses.
const prefetch = 4096

// maxEmptyConsumers is the number of consecutive consumers that may fail or deliver nothing before
// reading fails. While the store may only be unavailable, reading is tried for longer; see [retried].
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

// reader performs one pass over the log, for one call to Read or Follow.
type reader struct {
	log   *Log
	epoch string // epoch of the log when reading started
	next  uint64 // number of the next entry to yield
	to    uint64 // number of the last entry to yield; 0 means no end
	yield func(journal.Entry, error) bool
}

// begin determines the current epoch of the log. It retries while the store is unreachable, and
// returns false if ctx ends first.
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

// run yields entries until it has reached the last one to yield. It replaces consumers that fail.
func (r *reader) run(ctx context.Context) error {
	if r.to != 0 && r.to-r.next < direct {
		if err := r.few(ctx); err != nil {
			return err
		}
	}
	retry := newPatience()
	for r.to == 0 || r.next <= r.to {
		before := r.next
		err := r.consume(ctx)
		if ctx.Err() != nil || errors.Is(err, journal.ErrEpoch) || errors.Is(err, storing.ErrStop) {
			return err
		}
		if r.next > before {
			retry.waits.Reset()
		}
		wait, more := retry.next(err)
		switch {
		case r.to == 0 || more:
			backoff.Sleep(ctx, wait) // the store may be unreachable
		case err != nil:
			return err
		default:
			return fmt.Errorf("event log: read the log: %w", errNoAnswer)
		}
	}
	return nil
}

// bounds requests the bounds of the log, and returns [journal.ErrEpoch] if the log has another
// epoch than the reader's. If it succeeds, every message received before the response belongs to
// the reader's log.
func (r *reader) bounds(ctx context.Context) (journal.Bounds, error) {
	b, err := r.log.Bounds(ctx)
	if err == nil && b.Epoch != r.epoch {
		err = journal.ErrEpoch
	}
	return b, err
}

// consume creates a consumer and yields entries from it until it has reached the last one to yield,
// or the consumer fails.
func (r *reader) consume(ctx context.Context) error {
	msgs, err := r.log.store.consumeFrom(ctx, r.next)
	if err != nil {
		return err
	}
	defer msgs.close()
	if _, err := r.bounds(ctx); err != nil {
		return err
	}
	if r.to != 0 && msgs.pending == 0 { // the remaining entries are no longer stored
		return r.missing(ctx, r.to, false)
	}
	for stalled := 0; r.to == 0 || r.next <= r.to; {
		m, err := msgs.next(ctx)
		if errors.Is(err, errQuiet) {
			// Either there is nothing new, or the consumer's node is down and the consumer will
			// never deliver again.
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

// few yields the entries that a single request to the store returns. Most readers are only slightly
// behind, so this avoids creating a consumer. The response may be incomplete if the node that
// responds is behind or the store is damaged.
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

// take yields the entry for a message. If entries before it are missing, it first yields a gap.
func (r *reader) take(ctx context.Context, m message) error {
	if m.seq < r.next { // a new consumer may start with earlier messages
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

// missing yields gaps for the missing entries from r.next to last. more is true if another entry
// follows them immediately.
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

// pass yields an entry and advances r.next.
func (r *reader) pass(e journal.Entry, more bool) error {
	r.next, e.More = e.Seq+1, more
	if !r.yield(e, nil) {
		return storing.ErrStop
	}
	return nil
}

// Select implements [journal.Log]. The store filters the events, so that only the selected ones are
// transferred.
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
				// If reading fails, the retry continues after this message.
				cfg.DeliverPolicy, cfg.OptStartTime, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, m.seq+1
				e, ok := entryOf(b.Epoch, m)
				return !ok || yield(e, nil)
			})
		})
	})
}
