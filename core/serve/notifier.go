package serve

import (
	"context"
	"sync"
)

// notifier carries the notifications of one request to its client, none after
// close returned.
type notifier struct {
	ctx    context.Context // of the request
	cancel context.CancelFunc
	// send waits until the client has taken the message, or ctx ends.
	send func(ctx context.Context, message []byte)

	mu   sync.Mutex
	over bool
	wg   sync.WaitGroup // sends under way
}

func newNotifier(ctx context.Context, send func(context.Context, []byte)) *notifier {
	n := &notifier{send: send}
	n.ctx, n.cancel = context.WithCancel(ctx)
	return n
}

func (n *notifier) notify(method string, params any) {
	n.mu.Lock()
	if n.over {
		n.mu.Unlock()
		return
	}
	n.wg.Add(1)
	n.mu.Unlock()
	defer n.wg.Done()
	if message := notification(method, params); message != nil && n.ctx.Err() == nil {
		n.send(n.ctx, message)
	}
}

// close ends the sends that are under way and lets none begin any more.
func (n *notifier) close() {
	n.mu.Lock()
	n.over = true
	n.mu.Unlock()
	n.cancel()
	n.wg.Wait()
}
