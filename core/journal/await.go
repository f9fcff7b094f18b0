package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

var (
	errEnd = errors.New("nothing is left to read")
	// errWithheld: the store is here, has messages, and does not give them.
	errWithheld = errors.New("the store does not give what it has")
)

// nudgeAfter is how long await leaves a store in peace that has something to give
// and gives nothing.
const nudgeAfter = 20 * time.Millisecond

// await is next for those to whom silence says nothing: a busy disk and a far
// cluster are silent, too. It asks the store, and ends with errEnd only when that
// says that nothing is left; else after callTimeout at the latest.
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
		// go on behind it when they are asked for more.
		unanswered, m.quiet = 0, nudgeAfter
		if err := m.ask(m.j.nc.NewInbox(), 1); err != nil {
			return message{}, err
		}
	}
}

// left asks the store whether there is anything that did not come yet.
func (m *messages) left(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := m.j.js.Consumer(ctx, m.stream, m.consumer)
	if err != nil {
		return false, err
	}
	info := c.CachedInfo()
	return info.NumPending > 0 || info.Delivered.Consumer > m.last, nil
}

// retried calls f again while it fails: a consumer of the store whose node died is
// no good any more, and another one is.
func retried(ctx context.Context, f func() error) error {
	var err error
	for range patience {
		if err = f(); err == nil || ctx.Err() != nil || !pause(ctx, 100*time.Millisecond) {
			break
		}
	}
	return err
}
