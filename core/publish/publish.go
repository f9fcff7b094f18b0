package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Options configure a Publisher. Journal is required.
type Options struct {
	// Journal stores the events. The caller closes it after Run.
	Journal *journal.Journal
	// Tracker are the options of the tracker. The baselines and EventCursors are set by New.
	Tracker tracker.Options
	// Shared divides the servers among all processes on the journal's cluster that set Shared.
	// Otherwise this process follows all servers that are applied.
	Shared bool
	// Replica watches the servers that other processes share, and follows none. It excludes
	// Shared.
	Replica bool
	// Logger gets records that an operator should see; nil discards them.
	Logger *slog.Logger
}

// A Publisher follows servers and stores what happens to them. Its methods may be
// called from anywhere.
type Publisher struct {
	journal  *journal.Journal
	tracker  *tracker.Tracker
	memory   *memory
	recorder *recorder
	texts    *texts
	sharing  *sharing // nil: all servers are followed by this process
	cluster  *cluster // nil: there are no others

	settled atomic.Bool // every server was tried once
}

// New reads what the journal remembers of the servers and makes the tracker. It waits
// for a cluster that has no leader for up to 30 s. It starts no goroutine.
func New(ctx context.Context, opts Options) (*Publisher, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Publisher{journal: opts.Journal, memory: newMemory(opts.Journal), texts: &texts{contents: opts.Journal.Contents, secrets: map[string][]string{}}}
	p.memory.texts = p.texts
	if err := p.memory.loadWithRetry(ctx); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	opts.Tracker.Baseline, opts.Tracker.BaselineList = p.memory.baseline, p.memory.baselineList
	opts.Tracker.EventCursors = p.memory.cursors
	p.tracker = tracker.New(opts.Tracker)
	p.recorder = newRecorder(p.tracker, opts.Journal, p.texts, opts.Logger)
	if opts.Shared {
		p.sharing = newSharing(opts.Journal, p.tracker, p.recorder, p.memory, opts.Logger)
		p.recorder.sharing, p.memory.sharing = p.sharing, p.sharing
		p.tracker.Apply(&config.Config{}) // nothing is followed without a lease
	}
	if opts.Shared || opts.Replica {
		p.cluster = newCluster(opts.Journal, p.tracker, p.sharing)
	}
	return p, nil
}

// Tracker is the tracker whose events are stored. Servers are set with
// [Publisher.Apply], not with its Apply.
func (p *Publisher) Tracker() *tracker.Tracker { return p.tracker }

// Apply sets the servers to follow, or to share with the other processes. It never
// blocks; the latest config wins.
func (p *Publisher) Apply(cfg *config.Config) {
	p.texts.apply(cfg)
	if p.sharing != nil {
		p.sharing.apply(cfg)
		return
	}
	p.tracker.Apply(cfg)
}

// Reloads counts the config events that were stored.
func (p *Publisher) Reloads() Reloads { return p.recorder.reloads() }

// Ready returns why this process is not ready to serve readers, nil if it is: every
// server was tried once, events can be stored, and with [Options.Shared] every server
// is followed by some process.
func (p *Publisher) Ready() error {
	if !p.settled.Load() {
		return errors.New("not every server has been contacted yet")
	}
	if p.sharing != nil {
		if err := p.sharing.ready(); err != nil {
			return err
		}
	}
	return p.journal.Err()
}

// Task is a part of the program that runs until its context ends.
type Task func(context.Context) error

// Tasks run beside the tracker; see [Publisher.Run]. If a task fails before its context has
// ended, all others end.
type Tasks struct {
	// Sources end with the context of Run: the changes that they caused are still published.
	Sources []Task
	// Readers end after everything was stored.
	Readers []Task
}

// Run follows the servers and stores what happens until ctx ends or a task fails. It
// returns after the end of everything it started, with the error of the first task
// that failed. It may be called once.
func (p *Publisher) Run(ctx context.Context, tasks Tasks) error {
	running, ctx := errgroup.WithContext(ctx)
	reading, endReaders := context.WithCancel(context.WithoutCancel(ctx))
	defer endReaders()
	start := func(ctx context.Context, task Task) {
		running.Go(func() error {
			if err := task(ctx); ctx.Err() == nil {
				return err
			}
			return nil // being cancelled is not a failure
		})
	}
	for _, reader := range tasks.Readers {
		start(reading, reader)
	}
	if p.sharing != nil {
		start(reading, p.sharing.run)
		start(ctx, p.cluster.announce)
	}
	if p.cluster != nil {
		start(reading, p.cluster.watch)
	}
	for _, source := range tasks.Sources {
		start(ctx, source)
	}
	start(ctx, func(ctx context.Context) error {
		_, err := p.tracker.Settled(ctx)
		p.settled.Store(err == nil)
		return nil
	})
	recording := p.recorder.start()
	start(ctx, func(ctx context.Context) error { return p.memory.run(ctx, p.tracker, p.recorder) })
	_ = p.tracker.Run(ctx)
	recording.Wait()
	p.memory.remember(p.tracker.Snapshot(), p.recorder) // what was learned since the last time
	p.flush(ctx)
	endReaders()
	return running.Wait()
}

// flushFor bounds how long readers wait at the end for a slow store.
const flushFor = 5 * time.Second

// flush waits until readers can have everything that was appended. It does not wait for a store
// that is unavailable: closing the journal does.
func (p *Publisher) flush(ctx context.Context) {
	if p.journal.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushFor)
	defer cancel()
	_ = p.journal.Flush(ctx) // what is left then, Close stores or counts as lost
}
