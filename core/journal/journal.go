package journal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// Journal is an open log. Its methods may be called from several goroutines.
type Journal struct {
	// Contents holds texts of resources. It is never nil.
	Contents *Contents

	store  *store
	head   *head
	recent *recent
	writer *writer
	states *stateWriter
	leases leases

	ctx     context.Context // ends all reading; see lifetime
	end     context.CancelCauseFunc
	writing sync.WaitGroup // writer.run
	keeping sync.WaitGroup // states.run, Contents.run
	closed  sync.Once

	readersMu sync.Mutex     // guards closing
	closing   bool           // readers cannot be added any more
	readers   sync.WaitGroup // everything under lifetime
}

// Open opens the log, creating it if necessary. ctx applies to opening only.
func Open(ctx context.Context, opts Options) (*Journal, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	j := &Journal{store: newStore(opts), head: new(head), recent: new(recent)}
	j.Contents = newContents(j.store)
	j.states = newStateWriter(j.store, j.head)
	j.writer = newWriter(j.store, j.head, j.states, j.recent)
	j.ctx, j.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := j.start(ctx); err != nil {
		j.end(ErrClosed)
		j.store.release()
		return nil, err
	}
	return j, nil
}

func (j *Journal) start(ctx context.Context) error {
	if err := j.store.open(j.writer.suspect); err != nil {
		return err
	}
	if err := j.writer.open(ctx); err != nil {
		return err
	}
	if err := j.states.open(); err != nil {
		return err
	}
	if err := j.Contents.open(); err != nil {
		return err
	}
	j.writing.Go(func() { j.writer.run(j.ctx) })
	j.keeping.Go(func() { j.states.run(j.ctx) })
	j.keeping.Go(func() { j.Contents.run(j.ctx) })
	return nil
}

// Epoch returns the first part of the ids that the log gives now.
func (j *Journal) Epoch() string { return j.head.id() }

// Process returns the name of this process; see [Options].
func (j *Journal) Process() string { return j.store.opts.Process }

// Append queues the event and never waits. Events become visible to readers in
// the order of the calls, with an id of the log. The event is shared from now
// on, as on the bus. The only error is [ErrClosed].
func (j *Journal) Append(e *event.Event) error { return j.writer.queue.push(&item{event: e}) }

// Store appends the event and waits until it is durable. When ctx ends first, the
// event may still be stored later.
func (j *Journal) Store(ctx context.Context, e *event.Event) (Entry, error) {
	it := &item{event: e, done: make(chan outcome, 1)}
	if err := j.writer.queue.push(it); err != nil {
		return Entry{}, err
	}
	select {
	case out := <-it.done:
		return out.entry, out.err
	case <-ctx.Done():
		return Entry{}, fmt.Errorf("journal: wait for an event to be stored: %w", context.Cause(ctx))
	}
}

// Flush waits until everything that was appended, remembered or put is stored, or ctx ends.
func (j *Journal) Flush(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if events := j.Stats().Waiting; events == 0 && j.states.waiting() == 0 && j.Contents.waiting() == 0 {
			return nil
		} else if events == 0 {
			j.states.hurry()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Remember stores the state of a resource for which there is no event, such as that of its
// first read. It never waits; the state is stored within some seconds. States contained in
// events need not be remembered. The zero State forgets the resource.
func (j *Journal) Remember(r Resource, st State) error {
	return j.writer.queue.push(&item{resource: r, state: st})
}

// lifetime returns a context that ends with ctx or Close. Close waits until cancel is called.
func (j *Journal) lifetime(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	j.readersMu.Lock()
	defer j.readersMu.Unlock()
	if j.closing {
		cancel(ErrClosed)
		return ctx, func() {}
	}
	stop := context.AfterFunc(j.ctx, func() { cancel(ErrClosed) })
	j.readers.Add(1)
	return ctx, func() {
		stop()
		cancel(context.Canceled)
		j.readers.Done()
	}
}

// Close stores what is queued, for [Options.Drain] at most, ends all iterators
// and leases, and waits for everything the Journal owns. It returns how many events
// could not be stored. Later calls return nil.
func (j *Journal) Close() error {
	var err error
	j.closed.Do(func() {
		j.writer.queue.close()
		drain := time.AfterFunc(j.store.opts.Drain, func() { j.end(ErrClosed) })
		j.writing.Wait()
		drain.Stop()
		j.leases.close()
		j.end(ErrClosed)
		j.keeping.Wait()
		j.readersMu.Lock()
		j.closing = true
		j.readersMu.Unlock()
		j.readers.Wait()
		if n := j.store.counts.unsaved.Load(); n > 0 {
			err = fmt.Errorf("journal: %d events could not be stored before mcptrack stopped", n)
		}
		j.writer.mark(err == nil)
		j.store.release()
	})
	return err
}
