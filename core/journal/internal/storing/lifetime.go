package storing

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/mcptrack/mcptrack/core/journal"
)

// Lifetime is the time during which a log is open. Closing the log calls End and then Wait.
type Lifetime struct {
	ctx context.Context
	end context.CancelCauseFunc

	mu     sync.Mutex // guards ended
	ended  bool       // Wait was called: no more calls begin
	active sync.WaitGroup
}

// NewLifetime begins a lifetime. It keeps the values of ctx, but does not end with it.
func NewLifetime(ctx context.Context) *Lifetime {
	l := &Lifetime{}
	l.ctx, l.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return l
}

// Context ends with [journal.ErrClosed] when End is called.
func (l *Lifetime) Context() context.Context { return l.ctx }

// End ends the contexts of the log and of all calls.
func (l *Lifetime) End() { l.end(journal.ErrClosed) }

// Begin returns the context of a call. It ends with ctx or with the lifetime. Wait waits until
// cancel is called.
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

// Wait waits for all calls that have begun; call End first. Later calls get a context that has
// ended.
func (l *Lifetime) Wait() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.active.Wait()
}

// ErrStop is returned by the read function of Iterate if the consumer wants no more.
var ErrStop = errors.New("the consumer has stopped")

// Iterate returns a sequence of what read yields. An error of read is yielded last, or the cause of
// the context if it has ended.
func (l *Lifetime) Iterate(ctx context.Context, read func(ctx context.Context, yield func(journal.Entry, error) bool) error) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		ctx, cancel := l.Begin(ctx)
		defer cancel()
		if err := read(ctx, yield); err != nil && !errors.Is(err, ErrStop) {
			yield(journal.Entry{}, Cause(ctx, err))
		}
	}
}

// Cause returns err, or the cause of ctx if err is not nil and ctx has ended.
func Cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Progress counts things that begin and finish in the same order, and lets callers wait until
// everything that has begun is finished. The zero value is ready to use.
type Progress struct {
	mu          sync.Mutex // guards all below
	begun, done uint64
	moved       chan struct{} // closed at the next change of done; nil while nobody waits
}

// Begin counts one more and returns its number.
func (p *Progress) Begin() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun++
	return p.begun
}

// Count returns how many have begun, and how many of them are not finished.
func (p *Progress) Count() (begun uint64, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun, int(p.begun - p.done)
}

// Advance records that the next n are finished.
func (p *Progress) Advance(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finishLocked(p.done + uint64(n))
}

// Finish records that the first n are finished.
func (p *Progress) Finish(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finishLocked(n)
}

func (p *Progress) finishLocked(n uint64) {
	p.done = n
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// Wait waits until everything that has begun is finished, or ctx ends.
func (p *Progress) Wait(ctx context.Context) error {
	begun, _ := p.Count()
	return p.Reach(ctx, begun)
}

// Reach waits until the first n are finished, or ctx ends.
func (p *Progress) Reach(ctx context.Context, n uint64) error {
	p.mu.Lock()
	for p.done < n {
		if p.moved == nil {
			p.moved = make(chan struct{})
		}
		moved := p.moved
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

// notStored is the error of a caller that stopped waiting because ctx ended.
func notStored(ctx context.Context) error {
	return fmt.Errorf("event log: wait until it is stored: %w", context.Cause(ctx))
}
