package natslog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/storing"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Options say where the log is and how much of it is kept.
type Options struct {
	// URL is the NATS server or cluster, such as "nats://a:4222,nats://b:4222". It may contain
	// credentials and does not appear in errors or logs. Required.
	URL string
	// Credentials is a file with NATS user credentials for URL; optional.
	Credentials string
	// Existing opens only an existing log, for reading: nothing is created, and the retention is
	// not changed. If there is no log, the error of Open matches [fs.ErrNotExist].
	Existing bool
	// Retain is how long events are kept; 7 days.
	Retain time.Duration
	// RetainBytes bounds the stored size; 1 GiB. The oldest events are removed first.
	RetainBytes int64
	// KeepContent bounds the compressed texts in [Log.Contents], in bytes; 0: this process stores
	// none. Texts that other processes store can be read.
	KeepContent int64
	// Stream names the log: letters, digits, _ and -; "mcptrack".
	Stream string
	// Replicas is the number of cluster nodes that store a new log; 0: 3, or 1 if the server is not
	// part of a cluster.
	Replicas int
	// Process is the name of this process, which other processes that share the log show to people;
	// host:pid.
	Process string
	// Queue is how many events may wait before newer ones replace older ones of the same server,
	// resource and type; 65,536.
	Queue int
	// Drain bounds how long Close waits until queued items are stored; 5 s.
	Drain time.Duration
	// Logger logs when storing fails, when it works again, and when damage is found; nil discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	o.Retain = cmp.Or(o.Retain, 7*24*time.Hour)
	o.RetainBytes = cmp.Or(o.RetainBytes, 1<<30)
	o.Stream = cmp.Or(o.Stream, "mcptrack")
	o.Process = printable.Line(cmp.Or(o.Process, processName()), 128)
	o.Queue = cmp.Or(o.Queue, 1<<16)
	o.Drain = cmp.Or(o.Drain, 5*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.URL == "":
		return o, errors.New("event log: no NATS URL given")
	case !isStreamName(o.Stream):
		return o, fmt.Errorf("event log: invalid stream name %q; expected at most 64 letters, digits, _ and -", o.Stream)
	case o.Retain < 0 || o.RetainBytes < 0 || o.KeepContent < 0 || o.Queue < 0 || o.Replicas < 0 || o.Drain < 0:
		return o, errors.New("event log: negative option")
	}
	return o, nil
}

func isStreamName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// Log is a [journal.Log] on a NATS cluster. Its methods may be called from several goroutines.
type Log struct {
	store    *store
	recent   *recent
	writer   *writer
	states   *stateWriter
	contents *contents
	leases   *leases
	life     *storing.Lifetime

	writing sync.WaitGroup // writer.run
	keeping sync.WaitGroup // states.run, contents.run
	closed  sync.Once
}

var _ journal.Log = (*Log)(nil)

// Open opens the log, creating it if necessary. ctx applies to opening only.
func Open(ctx context.Context, opts Options) (*Log, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &store{opts: opts, health: storing.Health{Logger: opts.Logger}, instance: journal.NewEpoch(), subjects: subjects(opts.Stream)}
	l := &Log{store: s, recent: &recent{instance: s.instance}, states: newStateWriter(s), contents: newContents(s), leases: newLeases(s), life: storing.NewLifetime(ctx)}
	l.writer = &writer{store: s, states: l.states, recent: l.recent, queue: storing.NewQueue[note](opts.Queue)}
	if err := l.start(ctx); err != nil {
		l.life.End()
		s.close()
		return nil, err
	}
	return l, nil
}

func (l *Log) start(ctx context.Context) error {
	for _, open := range []func() error{
		func() error { return l.store.open(l.writer.suspect) }, func() error { return l.writer.open(ctx) }, l.states.open, l.contents.open,
	} {
		if err := open(); err != nil {
			return err
		}
	}
	l.writing.Go(func() { l.writer.run(l.life.Context()) })
	l.keeping.Go(func() { l.states.run(l.life.Context()) })
	l.keeping.Go(func() { l.contents.run(l.life.Context()) })
	return nil
}

func (l *Log) Epoch() string { return l.store.epoch() }

// Process returns the name of this process; see [Options].
func (l *Log) Process() string { return l.store.opts.Process }

// Contents implements [journal.Log]. Texts are stored compressed; a text that is then larger than a
// message of the server is not stored.
func (l *Log) Contents() journal.Contents { return l.contents }

func (l *Log) Append(e *event.Event) error { return l.writer.queue.Push(&item{Event: e}) }

// Remember implements [journal.Log]. The state is stored within some seconds.
func (l *Log) Remember(r journal.ResourceID, st journal.State) error {
	return l.remember(newResourceState(r, st), nil)
}

// RememberList implements [journal.Log]. The list is stored within some seconds.
func (l *Log) RememberList(name journal.ListName, list catalog.List) error {
	return l.remember(newKnownList(name, list), nil)
}

func (l *Log) remember(v value, lease *Lease) error {
	return l.writer.queue.Push(&item{Key: v.subject(), Note: note{value: v, lease: lease}})
}

func (l *Log) Store(ctx context.Context, e *event.Event) (journal.Entry, error) {
	entry, err := l.writer.queue.Do(ctx, &item{Event: e})
	if err != nil {
		return journal.Entry{}, err
	}
	// Only the stored message has the time of the store's clock.
	if found, err := l.store.get(ctx, entry.Seq, entry.Seq); err == nil && len(found) == 1 && found[0].seq == entry.Seq {
		entry.Stored = found[0].stored
	}
	return entry, nil
}

func (l *Log) Flush(ctx context.Context) error {
	ctx, cancel := l.life.Begin(ctx)
	defer cancel()
	if err := l.settle(ctx); err != nil {
		return err
	}
	return l.contents.progress.Wait(ctx)
}

// settle waits until everything that was appended or remembered is stored.
func (l *Log) settle(ctx context.Context) error {
	for settled := false; !settled; {
		_, before := l.writer.queue.Size()
		if _, err := l.writer.queue.Do(ctx, &item{}); err != nil {
			return err
		}
		// An event may have been merged into one that was appended after the item.
		_, after := l.writer.queue.Size()
		settled = before == after
	}
	l.states.hurry()
	return l.states.progress.Wait(ctx)
}

// Bounds implements [journal.Log]. It asks the store.
func (l *Log) Bounds(ctx context.Context) (journal.Bounds, error) {
	ctx, cancel := l.life.Begin(ctx)
	defer cancel()
	info, err := l.store.info(ctx, l.store.opts.Stream)
	if err != nil {
		return journal.Bounds{}, storing.Cause(ctx, fmt.Errorf("event log: read the bounds of the log: %w", err))
	}
	b := journal.Bounds{Epoch: info.Config.Metadata[epochKey], First: max(info.State.FirstSeq, 1), Last: info.State.LastSeq, Bytes: info.State.Bytes}
	if info.State.Msgs == 0 {
		b.First = b.Last + 1
	}
	if b.Epoch != l.Epoch() {
		l.writer.suspect()
	}
	return b, nil
}

func (l *Log) Resume(ctx context.Context, id string) (journal.Resumption, error) {
	b, err := l.Bounds(ctx)
	return journal.ResumeAt(b, id), err
}

// Since implements [journal.Log]. It fails if the store does not respond in time.
func (l *Log) Since(ctx context.Context, t time.Time) (seq uint64, err error) {
	ctx, cancel := l.life.Begin(ctx)
	defer cancel()
	limit, done := context.WithTimeoutCause(ctx, callTimeout, errNoAnswer)
	defer done()
	err = retried(limit, func() error {
		seq, err = l.since(limit, t)
		return err
	})
	return seq, storing.Cause(ctx, err)
}

func (l *Log) since(ctx context.Context, t time.Time) (uint64, error) {
	b, err := l.Bounds(ctx)
	if err != nil {
		return 0, err
	}
	msgs, err := l.store.consume(ctx, l.store.opts.Stream, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &t,
	})
	if err != nil {
		return 0, err
	}
	defer msgs.close()
	info, err := l.store.info(ctx, l.store.opts.Stream)
	if err != nil {
		return 0, fmt.Errorf("event log: find the first event after a time: %w", err)
	}
	if b.First > b.Last || info.State.LastTime.Before(t) {
		return b.Last + 1, nil
	}
	m, err := msgs.await(ctx)
	if errors.Is(err, errEnd) {
		return b.Last + 1, nil
	}
	if err != nil {
		return 0, fmt.Errorf("event log: find the first event after a time: %w", err)
	}
	return min(m.seq, b.Last+1), nil
}

func (l *Log) Stats() journal.StoreStats { return l.store.health.Stats(l.writer.queue.Size()) }

func (l *Log) Err() error { return l.store.health.Err() }

// Close implements [journal.Log]. It also releases all leases.
func (l *Log) Close() error {
	var err error
	l.closed.Do(func() {
		l.writer.queue.Close()
		drain := time.AfterFunc(l.store.opts.Drain, l.life.End)
		l.writing.Wait()
		drain.Stop()
		l.leases.close()
		l.life.End()
		l.keeping.Wait()
		l.life.Wait()
		err = l.store.health.Lost()
		l.store.close()
	})
	return err
}
