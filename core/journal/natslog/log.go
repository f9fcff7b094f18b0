package natslog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/pending"
	"github.com/mcptrack/mcptrack/core/journal/internal/running"
)

// Log is a [journal.Log] on a NATS cluster. Its methods may be called from several goroutines.
type Log struct {
	store    *store
	recent   *recent
	writer   *writer
	states   *stateWriter
	contents *contents
	leases   leases

	ctx     context.Context // ends all reading; see lifetime
	end     context.CancelCauseFunc
	writing sync.WaitGroup // writer.run
	keeping sync.WaitGroup // states.run, contents.run
	closed  sync.Once

	readers running.Readers // everything under lifetime
}

var _ journal.Log = (*Log)(nil)

// Open opens the log, creating it if necessary. ctx applies to opening only.
func Open(ctx context.Context, opts Options) (*Log, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := newStore(opts)
	l := &Log{store: s, recent: &recent{instance: s.instance}, states: newStateWriter(s), contents: newContents(s)}
	l.writer = newWriter(s, l.states, l.recent)
	l.ctx, l.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := l.start(ctx); err != nil {
		l.end(journal.ErrClosed)
		s.close()
		return nil, err
	}
	return l, nil
}

func (l *Log) start(ctx context.Context) error {
	if err := l.store.open(l.writer.suspect); err != nil {
		return err
	}
	if err := l.writer.open(ctx); err != nil {
		return err
	}
	if err := l.states.open(); err != nil {
		return err
	}
	if err := l.contents.open(); err != nil {
		return err
	}
	l.writing.Go(func() { l.writer.run(l.ctx) })
	l.keeping.Go(func() { l.states.run(l.ctx) })
	l.keeping.Go(func() { l.contents.run(l.ctx) })
	return nil
}

// Epoch implements [journal.Log].
func (l *Log) Epoch() string { return l.store.epoch() }

// Process returns the name of this process; see [Options].
func (l *Log) Process() string { return l.store.opts.Process }

// Contents implements [journal.Log]. Texts are stored compressed, and not if that is larger than
// a message of the server.
func (l *Log) Contents() journal.Contents { return l.contents }

// Append implements [journal.Log].
func (l *Log) Append(e *event.Event) error { return l.writer.queue.Push(&item{Event: e}) }

// Remember implements [journal.Log]. The state is stored within some seconds.
func (l *Log) Remember(r journal.Resource, st journal.State) error {
	return l.remember(newResourceState(r, st), nil)
}

// RememberList implements [journal.Log]. The list is stored within some seconds.
func (l *Log) RememberList(name journal.ListName, list catalog.List) error {
	return l.remember(newKnownList(name, list), nil)
}

func (l *Log) remember(v value, lease *Lease) error {
	return l.writer.queue.Push(&item{Key: v.subject(), Note: note{value: v, lease: lease}})
}

// Store implements [journal.Log].
func (l *Log) Store(ctx context.Context, e *event.Event) (journal.Entry, error) {
	entry, err := l.wait(ctx, &item{Event: e})
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("event log: wait for an event to be stored: %w", err)
		}
		return journal.Entry{}, err
	}
	// Only the stored message says when it was stored, by the store's clock.
	if found, err := l.store.get(ctx, entry.Seq, entry.Seq); err == nil && len(found) == 1 && found[0].seq == entry.Seq {
		entry.Stored = found[0].stored
	}
	return entry, nil
}

// wait appends an item and waits for what becomes of it.
func (l *Log) wait(ctx context.Context, it *item) (journal.Entry, error) {
	it.Done = make(chan pending.Outcome, 1)
	if err := l.writer.queue.Push(it); err != nil {
		return journal.Entry{}, err
	}
	select {
	case out := <-it.Done:
		return out.Entry, out.Err
	case <-ctx.Done():
		if it.Event == nil {
			l.writer.queue.Withdraw(it)
		}
		return journal.Entry{}, context.Cause(ctx)
	}
}

// Flush implements [journal.Log].
func (l *Log) Flush(ctx context.Context) error {
	ctx, cancel := l.lifetime(ctx)
	defer cancel()
	if err := l.settle(ctx); err != nil {
		return err
	}
	return l.contents.progress.wait(ctx)
}

// settle waits until everything that was appended or remembered is stored.
func (l *Log) settle(ctx context.Context) error {
	for settled := false; !settled; {
		_, before := l.writer.queue.Size()
		if _, err := l.wait(ctx, &item{}); err != nil {
			return err
		}
		// An event may have been merged into one that was appended after the item.
		_, after := l.writer.queue.Size()
		settled = before == after
	}
	l.states.hurry()
	return l.states.progress.wait(ctx)
}

// lifetime returns a context that ends with ctx or Close. Close waits until cancel is called.
func (l *Log) lifetime(ctx context.Context) (context.Context, context.CancelFunc) {
	return l.readers.Begin(ctx, l.ctx)
}

// ended returns the cause of ctx in place of an error that came because ctx has ended.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Close implements [journal.Log]. It also releases all leases.
func (l *Log) Close() error {
	var err error
	l.closed.Do(func() {
		l.writer.queue.Close()
		drain := time.AfterFunc(l.store.opts.Drain, func() { l.end(journal.ErrClosed) })
		l.writing.Wait()
		drain.Stop()
		l.leases.close()
		l.end(journal.ErrClosed)
		l.keeping.Wait()
		l.readers.Close()
		err = l.store.health.Lost()
		l.store.close()
	})
	return err
}
