package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
)

var (
	errEnd = errors.New("nothing is left to read")
	// errWithheld: the store answers and has messages, but does not deliver them.
	errWithheld = errors.New("the store has stopped delivering stored events")
)

// nudgeAfter is how long await waits when the store has messages but delivers none, before it
// requests one more.
const nudgeAfter = 20 * time.Millisecond

// await is like next, for callers that must know whether there are more messages: no message
// for a while may only mean a busy disk or a remote cluster. It returns errEnd only if the
// store says that nothing is left, and waits at most callTimeout.
func (m *messages) await(ctx context.Context) (message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errWithheld)
	defer cancel()
	defer func() { m.quiet = quietAfter }()
	for unanswered := 0; ; {
		got, err := m.next(ctx)
		if !errors.Is(err, errQuiet) {
			return got, err
		}
		left, err := m.left(ctx)
		switch {
		case ctx.Err() != nil:
			return message{}, context.Cause(ctx)
		case errors.Is(err, jetstream.ErrConsumerNotFound):
			return message{}, err
		case err != nil:
			if unanswered++; unanswered == 2 { // the consumer's node is gone
				return message{}, fmt.Errorf("%w: %w", errNoAnswer, err)
			}
			continue
		case !left:
			return message{}, errEnd
		}
		// A damaged message stops the store's consumer. Some kinds of damage are skipped when
		// another message is requested.
		unanswered, m.quiet = 0, nudgeAfter
		if err := m.ask(m.store.nc.NewInbox(), 1); err != nil {
			return message{}, err
		}
	}
}

// left asks the store whether there are messages that it has not delivered yet.
func (m *messages) left(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := m.store.js.Consumer(ctx, m.stream, m.consumer)
	if err != nil {
		return false, err
	}
	info := c.CachedInfo()
	return info.NumPending > 0 || info.Delivered.Consumer > m.last, nil
}

// each calls f with every message that a new consumer finds, in order, until f returns false.
func (s *store) each(ctx context.Context, stream string, cfg jetstream.ConsumerConfig, f func(message) (more bool)) error {
	msgs, err := s.consume(ctx, stream, cfg)
	if err != nil {
		return err
	}
	defer msgs.close()
	for left := msgs.pending; left > 0; {
		m, err := msgs.await(ctx)
		if errors.Is(err, errEnd) { // some could not be read back
			return nil
		}
		if err != nil {
			return fmt.Errorf("event log: read the log: %w", err)
		}
		if left = m.pending; !f(m) {
			return nil
		}
	}
	return nil
}

// retried calls f up to maxEmptyConsumers times until it succeeds: a consumer fails for good
// when its node dies, and a new one works.
func retried(ctx context.Context, f func() error) error {
	var err error
	for range maxEmptyConsumers {
		if err = f(); err == nil || ctx.Err() != nil || !backoff.Sleep(ctx, 100*time.Millisecond) {
			break
		}
	}
	return err
}
