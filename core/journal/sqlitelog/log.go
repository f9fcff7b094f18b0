package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/pending"
	"github.com/mcptrack/mcptrack/core/journal/internal/running"
)

var _ journal.Log = (*Log)(nil)

// Log is an open log. Its methods may be called from several goroutines.
type Log struct {
	opts     Options
	dir      *dir
	boot     string // identifies the run of the operating system
	health   running.Health
	view     view
	queue    *queue
	contents *contents
	tables   tables

	// suspected is what a reader found in a file that seems damaged; the writer then replaces that file.
	suspected atomic.Pointer[suspicion]

	ctx     context.Context // ends all reading and the writer; see lifetime
	end     context.CancelCauseFunc
	writing sync.WaitGroup // writer.run and writer.tick
	closed  sync.Once

	readers running.Readers

	// refreshing is a semaphore for refresh: whoever has sent may look. Capacity 1, never closed.
	refreshing chan struct{}
}

type (
	queue = pending.Queue[note]
	item  = pending.Item[note]
)

// note is what an item says beside its event. At most one of the fields is set.
type note struct {
	state  *stateNote
	list   *listNote
	record *recordNote
	flush  bool   // Done is sent when everything before is stored
	texts  uint64 // and as many texts, since the log was opened
}

type stateNote struct {
	journal.Resource
	journal.State
}

type listNote struct {
	journal.ListName
	catalog.List
}

type recordNote struct {
	name string
	journal.Record
}

// errReadOnly is the error of what would write to a log that was opened only to read.
var errReadOnly = errors.New("the event log was opened only to read it")

// Open opens the log, creating it if necessary. ctx applies to opening only.
func Open(ctx context.Context, opts Options) (*Log, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	l := newLog(ctx, opts)
	if l.dir, err = openDir(opts.Dir, opts.Existing); err != nil {
		l.end(journal.ErrClosed)
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		l.end(journal.ErrClosed) // the context's resources
		return nil, errors.Join(err, l.dir.close())
	}
	return l, nil
}

func newLog(ctx context.Context, opts Options) *Log {
	l := &Log{opts: opts, health: running.Health{Logger: opts.Logger}, boot: bootID(), queue: pending.New[note](opts.Queue), refreshing: make(chan struct{}, 1)}
	l.contents = newContents(l)
	l.ctx, l.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return l
}

func (l *Log) start(ctx context.Context) error {
	if l.opts.Existing {
		f, row, err := l.openExisting(ctx)
		if err != nil {
			return err
		}
		l.view.replace(f, row)
		if err := l.tables.load(ctx, l); err != nil {
			f.readers.close()
			return err
		}
		return nil
	}
	w, err := newWriter(l)
	if err != nil {
		return err
	}
	l.writing.Go(func() { w.run(l.ctx) })
	if err := l.tables.load(ctx, l); err != nil {
		l.queue.Close()
		l.writing.Wait()
		return err
	}
	return nil
}

// push queues an item.
func (l *Log) push(it *item) error {
	if l.opts.Existing {
		return errReadOnly
	}
	return l.queue.Push(it)
}

// wait queues an item and waits until the writer has finished it.
func (l *Log) wait(ctx context.Context, it *item) (journal.Entry, error) {
	it.Done = make(chan pending.Outcome, 1)
	if err := l.push(it); err != nil {
		return journal.Entry{}, err
	}
	select {
	case out := <-it.Done:
		return out.Entry, out.Err
	case <-ctx.Done():
		if it.Event == nil {
			l.queue.Withdraw(it)
		}
		return journal.Entry{}, fmt.Errorf("event log: wait for what was appended: %w", context.Cause(ctx))
	}
}

// Append implements [journal.Log].
func (l *Log) Append(e *event.Event) error { return l.push(&item{Event: e}) }

// Store implements [journal.Log].
func (l *Log) Store(ctx context.Context, e *event.Event) (journal.Entry, error) {
	return l.wait(ctx, &item{Event: e})
}

// Remember implements [journal.Log].
func (l *Log) Remember(r journal.Resource, st journal.State) error {
	st.Text = nil
	return l.push(&item{Key: "state\x00" + r.ServerID + "\x00" + r.URI, Note: note{state: &stateNote{r, st}}})
}

// RememberList implements [journal.Log].
func (l *Log) RememberList(name journal.ListName, list catalog.List) error {
	items := make(catalog.List, len(list)) // the caller keeps the list
	for i, it := range list {
		items[i] = catalog.Item{Key: it.Key, Digest: it.Digest}
	}
	return l.push(&item{Key: "list\x00" + name.ServerID + "\x00" + string(name.Kind), Note: note{list: &listNote{name, items}}})
}

// Flush implements [journal.Log].
func (l *Log) Flush(ctx context.Context) error {
	if l.opts.Existing {
		return nil
	}
	_, err := l.wait(ctx, &item{Note: note{flush: true, texts: l.contents.accepted()}})
	return err
}

// Epoch implements [journal.Log].
func (l *Log) Epoch() string {
	f, _, _, _ := l.view.now()
	return f.epoch
}

// Bounds implements [journal.Log].
func (l *Log) Bounds(ctx context.Context) (journal.Bounds, error) {
	ctx, cancel := l.lifetime(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return journal.Bounds{}, context.Cause(ctx)
	}
	if err := l.refresh(ctx); err != nil {
		return journal.Bounds{}, err
	}
	f, first, last, bytes := l.view.now()
	return journal.Bounds{Epoch: f.epoch, First: first, Last: last, Bytes: bytes}, nil
}

// Resume implements [journal.Log].
func (l *Log) Resume(ctx context.Context, id string) (journal.Resumption, error) {
	b, err := l.Bounds(ctx)
	if err != nil {
		return journal.Resumption{}, err
	}
	return journal.ResumeAt(b, id), nil
}

// Contents implements [journal.Log].
func (l *Log) Contents() journal.Contents { return l.contents }

// lifetime returns a context that ends with ctx or Close. Close waits until cancel is called.
func (l *Log) lifetime(ctx context.Context) (context.Context, context.CancelFunc) {
	return l.readers.Begin(ctx, l.ctx)
}

// Close stores what is queued, for [Options.Drain] at most, ends all iterators, and waits for
// everything the Log owns. It returns how many events could not be stored. Later calls return nil.
func (l *Log) Close() error {
	var err error
	l.closed.Do(func() {
		l.queue.Close()
		l.contents.close()
		drain := time.AfterFunc(l.opts.Drain, func() { l.end(journal.ErrClosed) })
		l.writing.Wait()
		drain.Stop()
		l.end(journal.ErrClosed)
		l.readers.Close()
		l.tables.close()
		if l.opts.Existing {
			f, _, _, _ := l.view.now()
			f.readers.close()
		}
		err = errors.Join(l.health.Lost(), l.dir.close())
	})
	return err
}
