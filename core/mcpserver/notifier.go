package mcpserver

import (
	"context"
	"sync"
)

// notifier sends the notifications of one request to its client, none after close has
// returned.
type notifier struct {
	ctx    context.Context // of the request
	cancel context.CancelFunc
	// send blocks until the message is written or ctx is done. It reports false if the message
	// will not be written.
	send func(ctx context.Context, message []byte) bool

	mu   sync.Mutex
	over bool
	wg   sync.WaitGroup // calls of send
}

func newNotifier(ctx context.Context, send func(context.Context, []byte) bool) *notifier {
	n := &notifier{send: send}
	n.ctx, n.cancel = context.WithCancel(ctx)
	return n
}

// write reports false if the message will not be written, because the request is over or ends
// before that.
func (n *notifier) write(message []byte) bool {
	n.mu.Lock()
	if n.over {
		n.mu.Unlock()
		return false
	}
	n.wg.Add(1)
	n.mu.Unlock()
	defer n.wg.Done()
	return n.ctx.Err() == nil && n.send(n.ctx, message)
}

// close prevents new sends, aborts those in progress and waits until they have returned.
func (n *notifier) close() {
	n.mu.Lock()
	n.over = true
	n.mu.Unlock()
	n.cancel()
	n.wg.Wait()
}
