package journal

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
	// errWithheld: the store answers, has messages, and does not deliver them.
	errWithheld = errors.New("the store has stopped delivering stored events")
)

// nudgeAfter is how long await waits for a store that has messages and delivers
// none, before it requests another.
const nudgeAfter = 20 * time.Millisecond

// await is next for callers that must know whether there is more: a busy disk and a
// remote cluster are silent for a while, too. It returns errEnd only when the store
// says that nothing is left; otherwise it ends after callTimeout at the latest.
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
			if unanswered++; unanswered == 2 { // the node that it was on is gone
				return message{}, fmt.Errorf("%w: %w", errNoAnswer, err)
			}
			continue
		case !left:
			return message{}, errEnd
		}
		// A message that cannot be read back stops the store's consumer. Some kinds
		// of damage are skipped when more is requested.
		unanswered, m.quiet = 0, nudgeAfter
		if err := m.ask(m.store.nc.NewInbox(), 1); err != nil {
			return message{}, err
		}
	}
}

// left asks the store whether there is anything that was not delivered yet.
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

// retried calls f again while it fails: a consumer whose node died is useless, and
// the next one works.
func retried(ctx context.Context, f func() error) error {
	var err error
	for range maxEmptyConsumers {
		if err = f(); err == nil || ctx.Err() != nil || !backoff.Sleep(ctx, 100*time.Millisecond) {
			break
		}
	}
	return err
}
