package storing

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/journal"
)

// Lifetime tracks the calls to an open log, so that closing the log can cancel them and wait for
// them. To close a log, call End and then Wait.
type Lifetime struct {
	ctx context.Context
	end context.CancelCauseFunc

	mu     sync.Mutex // guards ended
	ended  bool       // set by Wait; no new calls may start
	active sync.WaitGroup
}

// NewLifetime starts a lifetime. Its context keeps the values of ctx, but is not cancelled with
// ctx.
func NewLifetime(ctx context.Context) *Lifetime {
	l := &Lifetime{}
	l.ctx, l.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return l
}

// Context returns the context of the lifetime. End cancels it, with the cause [journal.ErrClosed].
func (l *Lifetime) Context() context.Context { return l.ctx }

// End cancels the context of the lifetime and the contexts of all active calls.
func (l *Lifetime) End() { l.end(journal.ErrClosed) }

// Begin registers a call and returns a context for it, which is cancelled when ctx ends or End is
// called. The caller must call the returned function when the call is done; Wait waits for that.
func (l *Lifetime) Begin(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		cancel(journal.ErrClosed)
		return ctx, func() {}
	}
	stop := context.AfterFunc(l.ctx, func() { cancel(journal.ErrClosed) })
	l.active.Add(1)
	return ctx, func() {
		stop()
		cancel(context.Canceled)
		l.active.Done()
	}
}

// Wait waits until all registered calls are done. End must be called first. A call that is
// registered later receives a cancelled context.
func (l *Lifetime) Wait() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.active.Wait()
}

// ErrStop is returned by the read function passed to Iterate if the consumer stops iterating.
var ErrStop = errors.New("the consumer stopped iterating")

// Iterate returns a sequence of the entries that read yields. If read fails, the error is yielded
// last; if the context has ended by then, its cause is yielded instead.
func (l *Lifetime) Iterate(ctx context.Context, read func(ctx context.Context, yield func(journal.Entry, error) bool) error) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		ctx, cancel := l.Begin(ctx)
		defer cancel()
		if err := read(ctx, yield); err != nil && !errors.Is(err, ErrStop) {
			yield(journal.Entry{}, Cause(ctx, err))
		}
	}
}

// Cause returns err. If err is not nil and ctx has ended, it returns the cause of ctx instead.
func Cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Progress counts operations that start and finish in the same order, and lets callers wait until
// operations are finished. The zero value is ready to use.
type Progress struct {
	mu          sync.Mutex // guards the fields below
	begun, done uint64
	moved       wake.Change // of done
}

// Begin counts a new operation and returns its number, starting at 1.
func (p *Progress) Begin() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	return p.begun
}

// Count returns the number of operations that were started, and how many of them are unfinished.
func (p *Progress) Count() (begun uint64, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun, int(p.begun - p.done)
}

// Advance marks the next n operations as finished.
func (p *Progress) Advance(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finishLocked(p.done + uint64(n))
}

// Finish marks the operations up to number n as finished.
func (p *Progress) Finish(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finishLocked(n)
}

func (p *Progress) finishLocked(n uint64) {
	p.done = n
	p.moved.Happened()
}

// Wait waits until all operations that have started so far are finished, or until ctx ends.
func (p *Progress) Wait(ctx context.Context) error {
	begun, _ := p.Count()
	return p.Reach(ctx, begun)
}

// Reach waits until the operations up to number n are finished, or until ctx ends.
func (p *Progress) Reach(ctx context.Context, n uint64) error {
	p.mu.Lock()
	for p.done < n {
		moved := p.moved.Next()
		p.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return notStored(ctx)
		}
		p.mu.Lock()
	}
	p.mu.Unlock()
	return nil
}

// notStored returns the error for a caller whose ctx ended while it waited for an item to be
// stored.
func notStored(ctx context.Context) error {
	return fmt.Errorf("event log: stopped waiting for the store: %w", context.Cause(ctx))
}
