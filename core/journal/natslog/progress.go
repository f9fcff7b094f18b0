package natslog

import (
	"context"
	"sync"
)

// progress counts things that are begun and done in the same order, so that somebody can wait
// until everything that was begun before is done.
type progress struct {
	mu          sync.Mutex // guards all below
	begun, done uint64
	moved       chan struct{} // closed at the next change of done; nil while nobody waits
}

// begin counts one more, and returns how many were begun.
func (p *progress) begin() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	return p.begun
}

// count returns how many were begun.
func (p *progress) count() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun
}

// finish records that the first n are done.
func (p *progress) finish(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = n
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// wait waits until everything that was begun before is done, or returns the cause of ctx.
func (p *progress) wait(ctx context.Context) error { return p.reach(ctx, p.count()) }

// reach waits until the first ones, so many, are done, or returns the cause of ctx.
func (p *progress) reach(ctx context.Context, until uint64) error {
	p.mu.Lock()
	for p.done < until {
		if p.moved == nil {
			p.moved = make(chan struct{})
		}
		moved := p.moved
		p.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		p.mu.Lock()
	}
	p.mu.Unlock()
	return nil
}
