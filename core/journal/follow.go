package journal

import (
	"context"
	"errors"
	"iter"
)

// FollowToEnd follows the log until ctx ends, then yields what was stored until then, and ends. Who
// wants all that was appended calls [Log.Flush] before ctx ends. It also ends without an error when
// the log is closed, and early with any other error. Its result is used once.
func FollowToEnd(ctx context.Context, log Log, from uint64) iter.Seq2[Entry, error] {
	live := log.Follow(ctx, from)
	return func(yield func(Entry, error) bool) {
		next := from
		for e, err := range live {
			switch {
			case errors.Is(err, ErrClosed):
				return
			case err != nil && (ctx.Err() == nil || errors.Is(err, ErrEpoch)):
				yield(Entry{}, err)
				return
			}
			if err != nil {
				break
			}
			next = max(next, e.Seq+1)
			if !yield(e, nil) {
				return
			}
		}
		for e, err := range log.Read(context.WithoutCancel(ctx), next) {
			if errors.Is(err, ErrClosed) || !yield(e, err) || err != nil {
				return
			}
		}
	}
}
