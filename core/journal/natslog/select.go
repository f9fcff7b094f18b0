package natslog

import (
	"context"
	"iter"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/journal"
)

// Select implements [journal.Log]. The store does the filtering.
func (l *Log) Select(ctx context.Context, sel journal.Selection) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		ctx, cancel := l.lifetime(ctx)
		defer cancel()
		if err := ended(ctx, l.selectEntries(ctx, sel, yield)); err != nil {
			yield(journal.Entry{}, err)
		}
	}
}

// selectEntries yields entries until the end is reached or the consumer stops (nil).
func (l *Log) selectEntries(ctx context.Context, sel journal.Selection, yield func(journal.Entry, error) bool) error {
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
			// Another attempt reads what follows.
			cfg.DeliverPolicy, cfg.OptStartTime, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, m.seq+1
			e, ok := entryOf(b.Epoch, m)
			return !ok || yield(e, nil)
		})
	})
}
