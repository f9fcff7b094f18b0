package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Resumption says where a consumer that has the events up to some id continues.
type Resumption struct {
	// From is the number to pass to Read or Follow.
	From uint64
	// Gap is set if the consumer missed events that are no longer there, or if its id is not of
	// this log; it must get the gap first. From is then the first entry that exists. A consumer
	// that only wants new events uses Next instead.
	Gap *event.Gap
	// Next is the number that the next new event will have.
	Next uint64
}

// Resume determines where a consumer continues that has the events up to id, which may be any
// text.
func (j *Journal) Resume(ctx context.Context, id string) (Resumption, error) {
	b, err := j.Bounds(ctx)
	if err != nil {
		return Resumption{}, err
	}
	r := Resumption{From: b.First, Next: b.Last + 1}
	gap := func(reason string) (Resumption, error) {
		r.Gap = &event.Gap{From: printable.Line(id, 64), To: event.FormatID(b.Epoch, b.First-1), Reason: reason}
		return r, nil
	}
	epoch, seq, err := event.ParseID(id)
	switch {
	case err != nil:
		return gap(ReasonInvalid)
	case epoch != b.Epoch:
		return gap(ReasonEpoch)
	case seq > b.Last:
		return gap(ReasonAhead)
	case seq+1 < b.First:
		return gap(ReasonRetention)
	}
	r.From = seq + 1
	return r, nil
}

// Since returns the number of the first entry that was stored at t or later: Last+1 if there is
// none. It fails if the store does not answer in time.
func (j *Journal) Since(ctx context.Context, t time.Time) (seq uint64, err error) {
	ctx, cancel := j.lifetime(ctx)
	defer cancel()
	limit, done := context.WithTimeoutCause(ctx, callTimeout, errNoAnswer)
	defer done()
	err = retried(limit, func() error {
		seq, err = j.since(limit, t)
		return err
	})
	return seq, err
}

func (j *Journal) since(ctx context.Context, t time.Time) (uint64, error) {
	b, err := j.Bounds(ctx)
	if err != nil {
		return 0, err
	}
	msgs, err := j.store.consume(ctx, j.store.opts.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &t,
	})
	if err != nil {
		return 0, err
	}
	defer msgs.close()
	info, err := j.store.info(ctx, j.store.opts.Stream)
	if err != nil {
		return 0, fmt.Errorf("journal: find the first event after a time: %w", err)
	}
	if b.First > b.Last || info.State.LastTime.Before(t) {
		return b.Last + 1, nil
	}
	m, err := msgs.await(ctx)
	if errors.Is(err, errEnd) {
		return b.Last + 1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("journal: find the first event after a time: %w", err)
	}
	return min(m.seq, b.Last+1), nil
}
