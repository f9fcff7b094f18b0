package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/journal"
)

// Resume implements [journal.Log].
func (l *Log) Resume(ctx context.Context, id string) (journal.Resumption, error) {
	b, err := l.Bounds(ctx)
	if err != nil {
		return journal.Resumption{}, err
	}
	return journal.ResumeAt(b, id), nil
}

// Since implements [journal.Log]. It fails if the store does not answer in time.
func (l *Log) Since(ctx context.Context, t time.Time) (seq uint64, err error) {
	ctx, cancel := l.lifetime(ctx)
	defer cancel()
	limit, done := context.WithTimeoutCause(ctx, callTimeout, errNoAnswer)
	defer done()
	err = retried(limit, func() error {
		seq, err = l.since(limit, t)
		return err
	})
	return seq, ended(ctx, err)
}

func (l *Log) since(ctx context.Context, t time.Time) (uint64, error) {
	b, err := l.Bounds(ctx)
	if err != nil {
		return 0, err
	}
	msgs, err := l.store.consume(ctx, l.store.opts.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &t,
	})
	if err != nil {
		return 0, err
	}
	defer msgs.close()
	info, err := l.store.info(ctx, l.store.opts.Stream)
	if err != nil {
		return 0, fmt.Errorf("event log: find the first event after a time: %w", err)
	}
	if b.First > b.Last || info.State.LastTime.Before(t) {
		return b.Last + 1, nil
	}
	m, err := msgs.await(ctx)
	if errors.Is(err, errEnd) {
		return b.Last + 1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("event log: find the first event after a time: %w", err)
	}
	return min(m.seq, b.Last+1), nil
}
