package wire

import (
	"context"
	"sync"
	"time"
)

// pending holds the requests in flight, each with the function that fails it. The zero
// value is ready.
type pending struct {
	mu     sync.Mutex                         // guards what follows
	cancel map[string]context.CancelCauseFunc // by request id
	err    error                              // fails every later request; nil: none
}

// add registers a request; the caller calls remove once it is over.
func (p *pending) add(id string, cancel context.CancelCauseFunc) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		cancel(p.err)
		return func() {}
	}
	if p.cancel == nil {
		p.cancel = map[string]context.CancelCauseFunc{}
	}
	p.cancel[id] = cancel
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.cancel, id)
	}
}

// fail ends a request, if it is in flight.
func (p *pending) fail(id string, err error) {
	p.mu.Lock()
	cancel := p.cancel[id]
	p.mu.Unlock()
	if cancel != nil {
		cancel(err)
	}
}

// failAll ends all requests in flight, and those that would come later.
func (p *pending) failAll(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	for _, cancel := range p.cancel {
		cancel(p.err)
	}
}

// waitEmpty waits until no request is in flight or atMost is over. The error is the cause
// of ctx, if ctx has ended.
func (p *pending) waitEmpty(ctx context.Context, atMost time.Duration) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(atMost); ; {
		p.mu.Lock()
		empty := len(p.cancel) == 0
		p.mu.Unlock()
		if empty || !time.Now().Before(deadline) {
			return context.Cause(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
