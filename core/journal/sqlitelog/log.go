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

// Options specifies the location of the log and how much of it is kept. Zero values select the
// defaults.
type Options struct {
	// Dir is the data directory. It is created with mode 0700 if necessary. Only one process at a
	// time may write to the log in it. Dir is required.
	Dir string
	// Existing opens an existing log for reading only, even while another process writes to it.
	// Nothing is created or changed; methods that write return an error. If there is no log, the
	// error that Open returns matches [fs.ErrNotExist].
	Existing bool
	// Durability specifies when an event is treated as stored. The default is [journal.Always].
	Durability journal.Durability
	// Retain is how long events are kept. The default is 7 days.
	Retain time.Duration
	// RetainBytes limits the total size of the stored events, in bytes. The oldest events are
	// removed first. The default is 1 GiB.
	RetainBytes int64
	// KeepContent limits the total size of the texts in Contents, in bytes. If it is 0, no texts
	// are kept, and those already stored are removed.
	KeepContent int64
	// Queue is the number of events that may wait to be stored. If more are waiting, newer events
	// replace older ones of the same server, resource and type. The default is 65,536.
	Queue int
	// Drain limits how long Close waits for queued items to be stored. The default is 5 s.
	Drain time.Duration
	// Logger receives messages when storing fails, when it works again, and when damage is found.
	// If it is nil, nothing is logged.
	Logger *slog.Logger

	// check limits how long PRAGMA quick_check runs when the file is opened. The default is 150 ms.
	// Tests in which the check must find damage set a longer time, because the check may not finish
	// in time on a busy machine.
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
		return o, errors.New("event log: no data directory specified")
	case o.Durability != journal.Always && o.Durability != journal.Interval:
		return o, fmt.Errorf("event log: unknown durability %q; choose always or interval", o.Durability)
	case o.Retain < 0 || o.RetainBytes < 0 || o.KeepContent < 0 || o.Queue < 0 || o.Drain < 0:
		return o, errors.New("event log: an option is negative")
	}
	return o, nil
}

// Log is a [journal.Log] in an SQLite file. Its methods are safe for concurrent use.
type Log struct {
	opts     Options
	dir      *dir
	boot     string // the result of bootID
	health   storing.Health
	view     view
	queue    *queue
	contents *contents
	calls    callLog
	life     *storing.Lifetime

	// suspected is damage that a reader has found. The writer then sets the file
	// aside. It is nil if no damage was found.
	suspected atomic.Pointer[suspicion]

	writing sync.WaitGroup // waits for writer.run and its ticker
	closed  sync.Once

	// refreshing is a semaphore that serializes calls to refresh: a caller sends before it starts,
	// and receives when it is done. Its capacity is 1, and it is never closed.
	refreshing chan struct{}
}

type (
	queue = storing.Queue[note]
	item  = storing.Item[note]
)

// note adds the content of an item without an event to a batch. If it is nil, the item stores
// nothing: it only reports, through Done, that everything queued before it is stored.
type note func(b *batch)

// errReadOnly is returned by methods that write if the log was opened with Existing.
var errReadOnly = errors.New("the event log was opened read-only")

// Open opens the log. It creates the log if necessary. ctx limits only the opening, not the
// lifetime of the log.
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
		l.life.End() // releases the context of the lifetime
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
	l.calls.l = l
	return l
}

func (l *Log) start(ctx context.Context) error {
	if l.opts.Existing {
		f, row, err := l.openExisting(ctx)
		if err != nil {
			return err
		}
		l.view.replace(f, row)
		return nil
	}
	w, err := newWriter(l)
	if err != nil {
		return err
	}
	l.writing.Go(func() { w.run(l.life.Context()) })
	return nil
}

func (l *Log) push(it *item) error {
	if l.opts.Existing {
		return errReadOnly
	}
	return l.queue.Push(it)
}

func (l *Log) Append(e *event.Event) error { return l.push(&item{Event: e}) }

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
	if err := l.queue.Wait(ctx); err != nil {
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

// RecordsFile returns the path of a file in the data directory, for records that belong to the log; see
// package records. Records that a log of an older mcptrack contains are moved to it by Open.
func (l *Log) RecordsFile() string { return l.dir.recordsFile() }

func (l *Log) Contents() journal.Contents { return l.contents }

func (l *Log) Stats() journal.StoreStats {
	waiting, folded := l.queue.Size()
	return l.health.Stats(waiting+l.contents.waiting(), folded)
}

func (l *Log) Err() error { return l.health.Err() }

// Close stores the queued items, for at most [Options.Drain], ends all iterators, and waits for all
// goroutines of the Log. If events could not be stored, the returned error reports how many. Later
// calls return nil.
func (l *Log) Close() error {
	var err error
	l.closed.Do(func() {
		l.queue.Close()
		l.contents.close()
		l.calls.close()
		drain := time.AfterFunc(l.opts.Drain, l.life.End)
		l.writing.Wait()
		drain.Stop()
		l.life.End()
		l.life.Wait()
		if l.opts.Existing {
			f, _ := l.view.now()
			f.readers.close()
		}
		err = errors.Join(l.health.Lost(), l.dir.close())
	})
	return err
}
