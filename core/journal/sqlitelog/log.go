package sqlitelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
)

var _ journal.Log = (*Log)(nil)

// Options say where the log is and how much of it is kept.
type Options struct {
	// Dir is the data directory. It is created with mode 0700 if necessary. Only one process at a
	// time can write to its log. Required.
	Dir string
	// Existing opens an existing log only to read it, even while another process writes to it.
	// Nothing is created or changed; methods that write return an error. If there is no log, the
	// error of Open matches [fs.ErrNotExist].
	Existing bool
	// Durability says when an event counts as stored; [journal.Always].
	Durability journal.Durability
	// Retain is how long events are kept; 7 days.
	Retain time.Duration
	// RetainBytes bounds the size of the stored events; 1 GiB. The oldest are removed first.
	RetainBytes int64
	// KeepContent bounds the texts in Contents, in bytes. 0: no texts are kept, and stored ones are
	// removed.
	KeepContent int64
	// Queue is how many events may wait before newer ones replace older ones of the same server,
	// resource and type; 65,536.
	Queue int
	// Drain bounds how long Close waits until queued items are stored; 5 s.
	Drain time.Duration
	// Logger logs when storing fails, when it works again, and when damage is found; nil discards.
	Logger *slog.Logger

	// check bounds PRAGMA quick_check when the file is opened; 150 ms. Tests that need the check to
	// find damage set more, because a busy machine does not finish in time.
	check time.Duration
}

func (o Options) withDefaults() (Options, error) {
	o.Durability = cmp.Or(o.Durability, journal.Always)
	o.Retain = cmp.Or(o.Retain, 7*24*time.Hour)
	o.RetainBytes = cmp.Or(o.RetainBytes, 1<<30)
	o.Queue = cmp.Or(o.Queue, 1<<16)
	o.Drain = cmp.Or(o.Drain, 5*time.Second)
	o.check = cmp.Or(o.check, 150*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Dir == "":
		return o, errors.New("event log: no data directory given")
	case o.Durability != journal.Always && o.Durability != journal.Interval && o.Durability != journal.OS:
		return o, fmt.Errorf("event log: unknown durability %q; choose always, interval or os", o.Durability)
	case o.Retain < 0 || o.RetainBytes < 0 || o.KeepContent < 0 || o.Queue < 0 || o.Drain < 0:
		return o, errors.New("event log: negative option")
	}
	return o, nil
}

// Log is an open log, a [journal.Log]. Its methods may be called from several goroutines.
type Log struct {
	opts     Options
	dir      *dir
	boot     string // identifies the boot of the operating system
	health   storing.Health
	view     view
	queue    *queue
	contents *contents
	tables   *journal.RecordTables
	life     *storing.Lifetime

	// suspected is the damage that a reader found; the writer then replaces the file.
	suspected atomic.Pointer[suspicion]

	writing sync.WaitGroup // writer.run and its ticker
	closed  sync.Once

	// refreshing is a semaphore for refresh: a caller sends, and receives when it is done. Capacity
	// 1, never closed.
	refreshing chan struct{}
}

type (
	queue = storing.Queue[note]
	item  = storing.Item[note]
)

// note adds the content of an item without an event to a batch. nil: the item stores nothing, and
// Done is sent when everything before is stored.
type note func(b *batch)

// errReadOnly is the error of writing to a log that was opened with Existing.
var errReadOnly = errors.New("the event log was opened read-only")

// Open opens the log, creating it if necessary. ctx applies to opening only.
func Open(ctx context.Context, opts Options) (*Log, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	l := newLog(ctx, opts)
	if l.dir, err = openDir(opts.Dir, opts.Existing); err != nil {
		l.life.End()
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		l.life.End() // releases the context
		return nil, errors.Join(err, l.dir.close())
	}
	return l, nil
}

func newLog(ctx context.Context, opts Options) *Log {
	l := &Log{opts: opts, health: storing.Health{Logger: opts.Logger}, boot: bootID(), queue: storing.NewQueue[note](opts.Queue),
		life: storing.NewLifetime(ctx), refreshing: make(chan struct{}, 1)}
	l.contents = &contents{rouse: l.queue.Rouse, read: l.read, queued: map[catalog.Digest]*string{}}
	if !opts.Existing {
		l.contents.keep = opts.KeepContent
	}
	return l
}

func (l *Log) start(ctx context.Context) error {
	if l.opts.Existing {
		f, row, err := l.openExisting(ctx)
		if err != nil {
			return err
		}
		l.view.replace(f, row)
		if err := l.loadRecords(ctx); err != nil {
			f.readers.close()
			return err
		}
		return nil
	}
	w, err := newWriter(l)
	if err != nil {
		return err
	}
	l.writing.Go(func() { w.run(l.life.Context()) })
	if err := l.loadRecords(ctx); err != nil {
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
	if l.opts.Existing {
		return journal.Entry{}, errReadOnly
	}
	return l.queue.Do(ctx, it)
}

func (l *Log) Append(e *event.Event) error { return l.push(&item{Event: e}) }

func (l *Log) Store(ctx context.Context, e *event.Event) (journal.Entry, error) {
	return l.wait(ctx, &item{Event: e})
}

func (l *Log) Remember(r journal.ResourceID, st journal.State) error {
	st.Text = nil
	return l.push(&item{Key: "state\x00" + r.ServerID + "\x00" + r.URI, Note: func(b *batch) { b.state(r, st) }})
}

func (l *Log) RememberList(name journal.ListName, list catalog.List) error {
	list = journal.StoredList(list)
	return l.push(&item{Key: "list\x00" + name.ServerID + "\x00" + string(name.Kind), Note: func(b *batch) { b.list(name, list) }})
}

func (l *Log) Flush(ctx context.Context) error {
	if l.opts.Existing {
		return nil
	}
	ctx, cancel := l.life.Begin(ctx)
	defer cancel()
	if _, err := l.wait(ctx, &item{}); err != nil {
		return err
	}
	return l.contents.progress.Wait(ctx)
}

func (l *Log) Epoch() string {
	_, b := l.view.now()
	return b.Epoch
}

func (l *Log) Bounds(ctx context.Context) (journal.Bounds, error) {
	ctx, cancel := l.life.Begin(ctx)
	defer cancel()
	if ctx.Err() != nil {
		return journal.Bounds{}, context.Cause(ctx)
	}
	if err := l.refresh(ctx); err != nil {
		return journal.Bounds{}, err
	}
	_, b := l.view.now()
	return b, nil
}

func (l *Log) Resume(ctx context.Context, id string) (journal.Resumption, error) {
	b, err := l.Bounds(ctx)
	return journal.ResumeAt(b, id), err
}

func (l *Log) Contents() journal.Contents { return l.contents }

func (l *Log) Stats() journal.StoreStats {
	waiting, folded := l.queue.Size()
	return l.health.Stats(waiting+l.contents.waiting(), folded)
}

func (l *Log) Err() error { return l.health.Err() }

// Close stores what is queued, for at most [Options.Drain], ends all iterators, and waits for
// everything the Log owns. It returns how many events could not be stored. Later calls return nil.
func (l *Log) Close() error {
	var err error
	l.closed.Do(func() {
		l.queue.Close()
		l.contents.close()
		drain := time.AfterFunc(l.opts.Drain, l.life.End)
		l.writing.Wait()
		drain.Stop()
		l.life.End()
		l.life.Wait()
		l.tables.Close()
		if l.opts.Existing {
			f, _ := l.view.now()
			f.readers.close()
		}
		err = errors.Join(l.health.Lost(), l.dir.close())
	})
	return err
}
