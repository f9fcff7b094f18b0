package journal

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Journal is an open log. Its methods may be called from several goroutines.
type Journal struct {
	opts     Options
	dir      *dir      // nil on a cluster
	embedded *embedded // nil on a cluster
	nc       *nats.Conn
	js       jetstream.JetStream
	instance string // names this run, for events that have no id of their own

	epoch   atomic.Pointer[string]
	doubt   atomic.Bool // the store may have another epoch: the writer is to verify
	durable watermark   // the last event that readers may see
	queue   *queue
	states  *states
	recent  recent
	leases  leases

	pub     *publisher // the writer's, like the next two
	last    uint64     // the last event known to be in the log
	unnamed uint64

	ctx     context.Context // ends all that reads; see lifetime
	end     context.CancelCauseFunc
	writing sync.WaitGroup // the writer
	keeping sync.WaitGroup // the keeper
	closed  sync.Once

	readersMu sync.Mutex     // guards closing
	closing   bool           // nobody may join the readers any more
	readers   sync.WaitGroup // all under lifetime

	counters
}

// Open opens the log, or makes it. The context bounds opening only.
func Open(ctx context.Context, opts Options) (*Journal, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	j := &Journal{opts: opts, instance: newEpoch(), queue: newQueue(opts.Queue), states: newStates()}
	j.ctx, j.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := j.start(ctx); err != nil {
		j.end(ErrClosed)
		j.release()
		return nil, err
	}
	return j, nil
}

func (j *Journal) start(ctx context.Context) error {
	var fault chan struct{}
	if j.opts.URL == "" {
		fault = make(chan struct{}, 1)
		if err := j.openStore(fault); err != nil {
			return err
		}
	}
	if err := j.connect(); err != nil {
		return err
	}
	if err := j.openLog(ctx); err != nil {
		return err
	}
	var err error
	if j.pub, err = newPublisher(j.nc, fault); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if j.embedded == nil {
		j.pub.wait = 2 * time.Second // a leader that died does not answer any more
	}
	keeper, err := newPublisher(j.nc, nil)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if j.embedded != nil {
		// Measured: a batch costs as much as 60 single syncs; without syncs, nothing
		// is gained. On a cluster only a batch keeps the order when a node dies.
		j.pub.batchFrom, j.pub.largest = 64, maxBatch
		if j.opts.Durability != Always {
			j.pub.batchFrom = maxBatch + 1
		}
		keeper.batchFrom, keeper.largest = j.pub.batchFrom, j.pub.largest
	}
	j.mark(false)
	j.writing.Go(func() { j.write(j.ctx) })
	j.keeping.Go(func() { j.keep(j.ctx, keeper); keeper.close() })
	return nil
}

// openStore locks the directory and starts the server in this process.
func (j *Journal) openStore(fault chan struct{}) error {
	var err error
	if j.dir, err = openDir(j.opts.Dir, j.opts.Existing); err != nil {
		return err
	}
	if was := j.dir.readMark(); !was.Clean && j.opts.Durability == Always {
		if err := j.dir.sync(); err != nil {
			return fmt.Errorf("journal: make durable what a killed run left: %w", err)
		}
	}
	j.embedded = &embedded{dir: j.dir, durability: j.opts.Durability, log: &serverLog{log: j.opts.Logger, fault: fault}}
	return j.embedded.start()
}

func (j *Journal) connect() error {
	opts := []nats.Option{
		nats.Name("mcptrack"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 200*time.Millisecond),
		nats.ReconnectBufSize(-1), // what cannot be sent now is for the writer to send again
		nats.Timeout(5 * time.Second),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			j.opts.Logger.Debug("connection to the store", "err", printable.Line(err.Error(), 256))
		}),
	}
	if j.embedded != nil {
		opts = append(opts, nats.InProcessServer(j.embedded), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	} else {
		// What happened meanwhile, nobody knows.
		opts = append(opts, nats.ReconnectHandler(func(*nats.Conn) { j.suspect() }))
		for one := range strings.SplitSeq(j.opts.URL, ",") {
			if u, err := url.Parse(strings.TrimSpace(one)); err != nil || u.Host == "" {
				return errors.New("journal: the NATS URL is none; it is like nats://host:4222")
			}
		}
		if j.opts.Credentials != "" {
			opts = append(opts, nats.UserCredentials(j.opts.Credentials))
		}
	}
	var err error
	if j.nc, err = nats.Connect(j.opts.URL, opts...); err != nil {
		return fmt.Errorf("journal: connect to NATS: %w", err)
	}
	if j.js, err = jetstream.New(j.nc); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// Epoch is the first part of the ids that the log gives now.
func (j *Journal) Epoch() string { return *j.epoch.Load() }

// Append queues the event and never waits. Events become visible to readers in
// the order of the calls, with an id of the log. The event is shared from now
// on, as on the bus. The only error is [ErrClosed].
func (j *Journal) Append(e *event.Event) error { return j.queue.push(&item{event: e}) }

// Store appends the event and waits until it is durable. When ctx ends first, it
// may be stored yet.
func (j *Journal) Store(ctx context.Context, e *event.Event) (Entry, error) {
	it := &item{event: e, done: make(chan outcome, 1)}
	if err := j.queue.push(it); err != nil {
		return Entry{}, err
	}
	select {
	case out := <-it.done:
		return out.entry, out.err
	case <-ctx.Done():
		return Entry{}, fmt.Errorf("journal: wait for an event to be stored: %w", context.Cause(ctx))
	}
}

// lifetime is ctx ended by Close too, which waits until cancel is called.
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
// and leases, and waits for all that belongs to the Journal. It says how many
// events could not be stored. Later calls return nil.
func (j *Journal) Close() error {
	var err error
	j.closed.Do(func() {
		j.queue.close()
		drain := time.AfterFunc(j.opts.Drain, func() { j.end(ErrClosed) })
		j.writing.Wait()
		drain.Stop()
		j.leases.close()
		j.end(ErrClosed)
		j.keeping.Wait()
		j.readersMu.Lock()
		j.closing = true
		j.readersMu.Unlock()
		j.readers.Wait()
		if n := j.unsaved.Load(); n > 0 {
			err = fmt.Errorf("journal: %d events could not be stored before the end", n)
		}
		j.mark(err == nil)
		j.release()
	})
	return err
}

// release gives back what open took, in the other order.
func (j *Journal) release() {
	if j.nc != nil {
		j.nc.Close()
	}
	if j.embedded != nil {
		j.embedded.stop()
	}
	if j.dir != nil {
		_ = j.dir.close()
	}
}
