package natslog

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return l.life.Iterate(ctx, func(ctx context.Context, yield func(journal.Entry, error) bool) error {
		b, err := l.Bounds(ctx)
		r := &reader{log: l, epoch: b.Epoch, next: max(from, 1), to: b.Last, yield: yield}
		if err != nil || r.next > r.to {
			return err
		}
		return retried(ctx, r.consume)
	})
}

func (l *Log) Follow(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return l.life.Iterate(ctx, func(ctx context.Context, yield func(journal.Entry, error) bool) error {
		r := &reader{log: l, next: max(from, 1), yield: yield}
		for {
			err := retried(ctx, r.consume)
			if errors.Is(err, journal.ErrEpoch) || errors.Is(err, storing.ErrStop) || !backoff.Sleep(ctx, time.Second) {
				return err
			}
		}
	})
}

// reader performs one pass over the log, for one call to Read or Follow.
type reader struct {
	log   *Log
	epoch string // epoch of the log when reading started; empty before it is known
	next  uint64 // number of the next entry to yield
	to    uint64 // number of the last entry to yield; 0 means no end
	yield func(journal.Entry, error) bool
}

// bounds requests the bounds of the log, and returns [journal.ErrEpoch] if the log has another
// epoch than the reader's. If it succeeds, every message received before the response belongs to
// the reader's log.
func (r *reader) bounds(ctx context.Context) (journal.Bounds, error) {
	b, err := r.log.Bounds(ctx)
	switch {
	case err != nil:
	case r.epoch == "":
		r.epoch = b.Epoch
	case b.Epoch != r.epoch:
		err = journal.ErrEpoch
	}
	return b, err
}

// consume creates a consumer and yields entries from it until it has reached the last one to yield,
// or the consumer fails. moved reports whether it yielded any.
func (r *reader) consume(ctx context.Context) (moved bool, err error) {
	began := r.next
	c, err := r.log.store.consumer(ctx, r.log.store.opts.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.next,
	})
	if err != nil {
		return false, err
	}
	defer c.close()
	within := time.Duration(0)
	if r.to != 0 {
		within = callTimeout
	}
	for quiet := true; err == nil && (r.to == 0 || r.next <= r.to); {
		if quiet {
			if _, err = r.bounds(ctx); err != nil {
				break
			}
		}
		if r.to != 0 && c.pending == 0 { // the remaining entries are no longer stored
			err = r.missing(ctx, r.to, false)
			break
		}
		before := c.last
		err = c.fetch(ctx, within, func(m message) error {
			if err := r.take(ctx, m); err != nil || r.to == 0 || r.next <= r.to {
				return err
			}
			return storing.ErrStop
		})
		quiet = c.last == before
	}
	return r.next > began, err
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
		e = e.WithEvent(r.log.recent.get(m.id()))
	}
	return r.pass(e, m.more && m.seq != r.to)
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
		return retried(ctx, func(ctx context.Context) (bool, error) {
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
