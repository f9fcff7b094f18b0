package running

import (
	"context"
	"sync"

	"github.com/mcptrack/mcptrack/core/journal"
)

// Readers are what a log waits for when it is closed. The zero value has none.
type Readers struct {
	mu     sync.Mutex // guards closed
	closed bool       // there can be no more
	wg     sync.WaitGroup
}

// Begin adds a reader, whose context ends with ctx or with that of the log. Close waits until cancel
// is called.
func (r *Readers) Begin(ctx, log context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		cancel(journal.ErrClosed)
		return ctx, func() {}
	}
	stop := context.AfterFunc(log, func() { cancel(journal.ErrClosed) })
	r.wg.Add(1)
	return ctx, func() {
		stop()
		cancel(context.Canceled)
		r.wg.Done()
	}
}

// Close waits for all readers; later ones end when they begin. The context of the log must have ended.
func (r *Readers) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wg.Wait()
}
