package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Desired says what an engine follows.
type Desired struct {
	// Config has the servers to begin with; nil: none.
	Config *config.Config
	// Select returns what to follow of a config; nil: everything in it.
	Select func(*config.Config) *config.Config
	// Follow keeps Config equal to a file; the engine sets Current, Apply and Publish. Nil: the
	// config does not change.
	Follow *reload.Options
}

// Options configure an [Engine]. The zero value follows all servers in this process.
type Options struct {
	// Tracker are the options of the tracker. New sets Log or Record, and, if the log is
	// durable, the baselines and EventCursors.
	Tracker tracker.Options
	// Applied is called with every config, before [Desired.Select] and before its servers are
	// followed. It must return immediately; nil: it is not called.
	Applied func(*config.Config)
	// Listed is called with every list of a server that the log remembers or that is recorded.
	// Exported is called with every event and returns its [event.Event.Exported]. Both are called
	// in storage order, the list of an event before the event, for all servers that this process
	// follows, whichever process stores their events. They must return immediately; nil: nothing
	// is exported.
	Listed   func(name journal.ListName, list catalog.List)
	Exported func(e *event.Event) map[string]string
	// Shared divides the servers among all processes on the cluster of a natslog.Log that set
	// Shared: one of them follows each server, or with FollowAll all do, and one stores its
	// events. Without Shared, this process follows all servers and stores all events.
	Shared, FollowAll bool
	// Replica observes the servers that other processes share, and follows none. It excludes
	// Shared.
	Replica bool
	// Logger receives records that an operator should see; nil discards them.
	Logger *slog.Logger
}

// An Engine follows servers and records what happens to them in a log. Its methods are safe for
// concurrent use.
type Engine struct {
	desired  Desired
	opts     Options
	log      journal.Log
	tracker  *tracker.Tracker
	memory   *memory   // nil: the log remembers nothing
	recorder *recorder // nil: the tracker publishes to the log itself
	sharing  *sharing  // nil: this process follows all servers
	cluster  *cluster  // nil: there are no other processes
	first    uint64

	settled atomic.Bool // every server was tried once
}

// New reads what the log remembers of the servers and makes the tracker. If a cluster has no
// leader, it waits for up to 30 s. It starts no goroutine. The caller closes the log after Run.
func New(ctx context.Context, desired Desired, log journal.Log, opts Options) (*Engine, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{desired: desired, opts: opts, log: log}
	if err := e.remember(ctx, log); err != nil {
		return nil, fmt.Errorf("read the event log: %w", err)
	}
	e.tracker = tracker.New(e.opts.Tracker)
	shared, ok := log.(*natslog.Log)
	switch {
	case !opts.Shared && !opts.Replica:
		return e, nil
	case !ok:
		return nil, errors.New("only a log on a NATS cluster can be shared")
	case opts.Shared:
		e.sharing = newSharing(shared, e)
		e.recorder.sharing = e.sharing
	}
	e.cluster = &cluster{log: shared, tracker: e.tracker, sharing: e.sharing, seen: map[string]status.Summary{}, sent: map[string]announced{}}
	return e, nil
}

// remember sets the options of the tracker: a log in memory becomes the tracker's own log, any other
// log its recorder.
func (e *Engine) remember(ctx context.Context, log journal.Log) error {
	b, err := log.Bounds(ctx)
	if err != nil {
		return err
	}
	e.first = b.Last + 1
	if own, ok := log.(*journal.Memory); ok && !own.KeepsContent() && e.opts.Exported == nil {
		e.opts.Tracker.Log = own
		return nil
	}
	e.memory = &memory{log: log, known: map[string]*published{}}
	if err := e.memory.loadWithRetry(ctx); err != nil {
		return err
	}
	e.recorder = newRecorder(log, e.memory, e.opts)
	t := &e.opts.Tracker
	t.Record, t.Baseline, t.BaselineList, t.EventCursors = e.recorder, e.memory.baseline, e.memory.baselineList, e.memory.cursors
	return nil
}

// Tracker returns the tracker whose events are in the log, for requests and for the state of the
// servers. The engine decides what it follows.
func (e *Engine) Tracker() *tracker.Tracker { return e.tracker }

// Log returns the log that was passed to New.
func (e *Engine) Log() journal.Log { return e.log }

// First returns the number of the first event of this engine, for readers that need no earlier ones.
func (e *Engine) First() uint64 { return e.first }

// Apply replaces the config that is followed. It never blocks; the latest config wins. Run
// applies the configs of [Desired].
func (e *Engine) Apply(cfg *config.Config) {
	if e.opts.Applied != nil {
		e.opts.Applied(cfg)
	}
	if e.recorder != nil {
		e.recorder.texts.apply(cfg)
	}
	if e.desired.Select != nil {
		cfg = e.desired.Select(cfg)
	}
	if e.sharing != nil {
		e.sharing.apply(cfg)
	}
	if e.sharing == nil || e.opts.FollowAll {
		e.tracker.Apply(cfg)
	}
}

// Reloads returns how many config events were recorded.
func (e *Engine) Reloads() status.Reloads {
	if e.recorder == nil {
		return status.Reloads{}
	}
	return e.recorder.reloads()
}

// Ready returns why this process is not ready to serve readers, nil if it is: every server was
// tried once, events can be stored, and with [Options.Shared] every server is followed by some
// process.
func (e *Engine) Ready() error {
	if !e.settled.Load() {
		return errors.New("not every server has been contacted yet")
	}
	if e.sharing != nil {
		if err := e.sharing.ready(); err != nil {
			return err
		}
	}
	return e.log.Err()
}

// Task is a part of the program that runs until its context ends.
type Task func(context.Context) error

// Part is a task of [Engine.Run], together with when it ends.
type Part struct {
	run    Task
	source bool
	events func(context.Context, iter.Seq2[journal.Entry, error]) error
}

// Source returns a part that causes events, such as a gateway whose clients call tools. Its
// context ends with the context of Run; the changes that it caused are still published.
func Source(run Task) Part { return Part{run: run, source: true} }

// Reader returns a part that reads the log. Its context ends after everything was stored,
// including the events that the end of Run caused.
func Reader(run Task) Part { return Part{run: run} }

// Events returns a reader that receives every event of this Run. The sequence ends after the last
// event. A Part of Events can be used in one Run.
func Events(read func(ctx context.Context, events iter.Seq2[journal.Entry, error]) error) Part {
	return Part{events: read}
}

// Run follows the servers until ctx ends or a part fails. Then it ends the sources and the tracker,
// waits until everything is stored, and ends the readers. It returns after everything that it
// started has ended, with the error of the first part that failed. It may be called once.
func (e *Engine) Run(ctx context.Context, parts ...Part) error {
	cfg := e.desired.Config
	if cfg == nil {
		cfg = &config.Config{}
	}
	e.Apply(cfg) // before follow applies a newer one
	running, ctx := errgroup.WithContext(ctx)
	reading, endReaders := context.WithCancel(context.WithoutCancel(ctx))
	defer endReaders()
	start := func(ctx context.Context, task Task) {
		running.Go(func() error {
			if err := task(ctx); ctx.Err() == nil {
				return err
			}
			return nil // cancellation is not a failure
		})
	}
	var sources sync.WaitGroup
	source := func(task Task) {
		sources.Add(1)
		start(ctx, func(ctx context.Context) error {
			defer sources.Done()
			return task(ctx)
		})
	}
	for _, p := range parts {
		switch {
		case p.events != nil:
			events := journal.FollowToEnd(reading, e.log, e.first)
			running.Go(func() error { return p.events(reading, events) })
		case p.source:
			source(p.run)
		default:
			start(reading, p.run)
		}
	}
	if e.sharing != nil {
		start(reading, e.sharing.run)
		start(ctx, e.cluster.announce)
	}
	if e.cluster != nil {
		start(reading, e.cluster.watch)
	}
	if e.desired.Follow != nil {
		source(e.follow)
	}
	start(ctx, func(ctx context.Context) error {
		_, err := e.tracker.Settled(ctx)
		e.settled.Store(err == nil)
		return nil
	})
	_ = e.tracker.Run(ctx)
	sources.Wait()
	e.flush(ctx)
	endReaders()
	return running.Wait()
}

// follow applies every new config in the file.
func (e *Engine) follow(ctx context.Context) error {
	opts := *e.desired.Follow
	opts.Current, opts.Apply, opts.Publish = e.desired.Config, e.Apply, e.tracker.Publish
	return reload.Run(ctx, opts)
}

// flushFor bounds how long readers wait at the end for a slow store.
const flushFor = 5 * time.Second

// flush waits until readers can read everything that was appended. It does not wait for an
// unavailable store: closing the log does.
func (e *Engine) flush(ctx context.Context) {
	if e.log.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushFor)
	defer cancel()
	_ = e.log.Flush(ctx) // Close stores the rest, or counts it as lost
}
