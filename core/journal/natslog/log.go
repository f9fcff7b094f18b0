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

// Options specifies the location of the log and how much of it is kept. Zero values select the
// defaults.
type Options struct {
	// URL is the address of the NATS server or cluster, such as "nats://a:4222,nats://b:4222". It
	// may contain credentials and never appears in errors or logs. It is required.
	URL string
	// Credentials is the path of an optional file with NATS user credentials for URL.
	Credentials string
	// Existing opens an existing log for reading only: nothing is created, and the retention is not
	// changed. If there is no log, the error that Open returns matches [fs.ErrNotExist].
	Existing bool
	// Retain is how long events are kept. The default is 7 days.
	Retain time.Duration
	// RetainBytes limits the stored size of the log, in bytes. The oldest events are removed first.
	// The default is 1 GiB.
	RetainBytes int64
	// KeepContent limits the total size of the compressed texts in [Log.Contents], in bytes. If it
	// is 0, this process stores no texts, but can read texts that other processes store.
	KeepContent int64
	// Stream is the name of the JetStream stream for the log. It may contain letters, digits, _ and
	// -. The default is "mcptrack".
	Stream string
	// Replicas is the number of cluster nodes that store a newly created log. The default is 3, or
	// 1 if the server is not part of a cluster.
	Replicas int
	// Process is the name under which the other processes that share the log display this process.
	// The default is host:pid.
	Process string
	// Queue is the number of events that may wait to be stored. If more are waiting, newer events
	// replace older ones of the same server, resource and type. The default is 65,536.
	Queue int
	// Drain limits how long Close waits for queued items to be stored. The default is 5 s.
	Drain time.Duration
	// Logger receives messages when storing fails, when it works again, and when damage is found.
	// If it is nil, nothing is logged.
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
		return o, errors.New("event log: no NATS URL specified")
	case !isStreamName(o.Stream):
		return o, fmt.Errorf("event log: invalid stream name %q; use at most 64 letters, digits, _ and -", o.Stream)
	case o.Retain < 0 || o.RetainBytes < 0 || o.KeepContent < 0 || o.Queue < 0 || o.Replicas < 0 || o.Drain < 0:
		return o, errors.New("event log: an option is negative")
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

// Log is a [journal.Log] on a NATS cluster. Its methods are safe for concurrent use.
type Log struct {
	store    *store
	recent   *recent
	writer   *writer
	states   *stateWriter
	contents *contents
	leases   *leases
	life     *storing.Lifetime

	writing sync.WaitGroup // waits for writer.run
	keeping sync.WaitGroup // waits for states.run and contents.run
	closed  sync.Once
}

var _ journal.Log = (*Log)(nil)

// Open opens the log. It creates the log if necessary. ctx limits only the opening, not the
// lifetime of the log.
func Open(ctx context.Context, opts Options) (*Log, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &store{opts: opts, health: storing.Health{Logger: opts.Logger}, instance: journal.NewEpoch(), subjects: subjects(opts.Stream)}
	l := &Log{store: s, recent: &recent{instance: s.instance}, states: newStateWriter(s), contents: newContents(s), leases: newLeases(ctx, s), life: storing.NewLifetime(ctx)}
	l.writer = &writer{store: s, states: l.states, recent: l.recent, queue: storing.NewQueue[note](opts.Queue),
		pub: newPublisher(s, 2*time.Second)} // kept short, because a dead leader never responds
	if err := l.start(ctx); err != nil {
		l.life.End()
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
	l.writing.Go(func() { l.writer.run(l.life.Context()) })
	l.keeping.Go(func() { l.states.run(l.life.Context()) })
	l.keeping.Go(func() { l.contents.run(l.life.Context()) })
	return nil
}

func (l *Log) Epoch() string { return l.store.epoch() }

// Process returns the name of this process; see [Options.Process].
func (l *Log) Process() string { return l.store.opts.Process }

// Contents implements [journal.Log]. Texts are compressed before they are stored; a text that is
// then still larger than the server's message limit is not stored.
func (l *Log) Contents() journal.Contents { return l.contents }

func (l *Log) Append(e *event.Event) error { return l.writer.queue.Push(&item{Event: e}) }

// Remember implements [journal.Log]. The state is normally stored within a few seconds.
func (l *Log) Remember(r journal.ResourceID, st journal.State) error {
	return l.remember(newResourceState(r, st), nil)
}

// RememberList implements [journal.Log]. The list is normally stored within a few seconds.
func (l *Log) RememberList(name journal.ListName, list catalog.List) error {
	return l.remember(newKnownList(name, list), nil)
}

func (l *Log) remember(v value, lease *Lease) error {
	return l.writer.queue.Push(&item{Key: v.subject(), Note: note{value: v, lease: lease}})
}

func (l *Log) Flush(ctx context.Context) error {
	ctx, cancel := l.life.Begin(ctx)
	defer cancel()
	if err := l.settle(ctx); err != nil {
		return err
	}
	return l.contents.progress.Wait(ctx)
}

// settle waits until everything that was appended or remembered so far is stored.
func (l *Log) settle(ctx context.Context) error {
	for settled := false; !settled; {
		_, before := l.writer.queue.Size()
		if err := l.writer.queue.Wait(ctx); err != nil {
			return err
		}
		// An event that was queued before may have been merged into an event that was queued after
		// the item of this call.
		_, after := l.writer.queue.Size()
		settled = before == after
	}
	return l.states.settle(ctx)
}

// Bounds implements [journal.Log]. It requests the bounds from the store.
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
	err = retried(ctx, func(ctx context.Context) (bool, error) {
		b, err := l.Bounds(ctx)
		if err != nil {
			return false, err
		}
		seq = b.Last + 1
		cfg := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &t}
		_, err = l.store.each(ctx, l.store.opts.Stream, cfg, func(m message) bool {
			seq = min(m.seq, seq)
			return false
		})
		return false, err
	})
	return seq, storing.Cause(ctx, err)
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
