package serve

import (
	"context"
	"sync"
)

// notifier sends the notifications of one request to its client, none after close has
// returned.
type notifier struct {
	ctx    context.Context // of the request
	cancel context.CancelFunc
	// send blocks until the message is written or ctx is done.
	send func(ctx context.Context, message []byte)

	mu   sync.Mutex
	over bool
	wg   sync.WaitGroup // calls of send
}

func newNotifier(ctx context.Context, send func(context.Context, []byte)) *notifier {
	n := &notifier{send: send}
	n.ctx, n.cancel = context.WithCancel(ctx)
	return n
}

// write reports false if the request is over.
func (n *notifier) write(message []byte) bool {
	n.mu.Lock()
	if n.over {
		n.mu.Unlock()
		return false
	}
	n.wg.Add(1)
	n.mu.Unlock()
	defer n.wg.Done()
	if n.ctx.Err() != nil {
		return false
	}
	n.send(n.ctx, message)
	return true
}

// close prevents new sends, aborts those in progress and waits until they have returned.
func (n *notifier) close() {
	n.mu.Lock()
	n.over = true
	n.mu.Unlock()
	n.cancel()
	n.wg.Wait()
}
