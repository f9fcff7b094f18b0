package engine

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/reload"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Desired specifies what an engine follows.
type Desired struct {
	// Config lists the initial servers. If it is nil and Follow is nil, the caller applies the first
	// config; see [Engine.Apply].
	Config *config.Config
	// Select returns the part of a config to follow; nil means the entire config.
	Select func(*config.Config) *config.Config
	// Follow keeps the config up to date with a file; the engine sets Current, Apply and Publish.
	// If it is nil, the config does not change.
	Follow *reload.Options
}

// Options configure an [Engine]. The zero value follows all servers in this process.
type Options struct {
	// Tracker holds the options for the tracker. New sets Log and Stored, and Published if there is a Lock.
	Tracker tracker.Options
	// Applied is called with every config, before [Desired.Select] is applied and the servers are
	// followed. It must return immediately. It may be nil.
	Applied func(*config.Config)
	// Listed is called with every list of a server that is stored in the log or newly recorded.
	// Exported is called with every event and returns its [event.Event.Exported]. Both are called
	// in storage order (a list before its event) for all servers that this process follows,
	// regardless of which process stores their events. They must return immediately. If Exported is
	// nil, events have no exported names.
	Listed   func(name journal.ListName, list catalog.List)
	Exported func(e *event.Event) map[string]string
	// Role is what this process does if there are others on the cluster of a natslog.Log.
	Role Role
	// Lock compares what the followed servers offer with a lock file, and publishes differences as
	// lock.drift. If it is nil, the engine compares nothing. A gateway, which compares anyway, passes
	// its results to [Engine.Verdicts] instead.
	Lock *Lock
	// Logger receives records intended for operators; nil discards them.
	Logger *slog.Logger
}

// Role is the part of one of several processes.
type Role uint8

// What a process does. The zero value is for the only process: it follows all servers and stores all events.
const (
	Alone   Role = iota
	Shares       // follows a part of the servers, and stores their events
	Serves       // follows all servers, as a gateway must, and stores the events of a part of them
	Watches      // follows no servers, and knows what the other processes follow
)

// An Engine follows servers and records their events in a log. Its methods are safe for concurrent
// use.
type Engine struct {
	desired Desired
	opts    Options
	log     journal.Log
	first   uint64
	tracker *tracker.Tracker
	texts   *texts
	sharing *sharing // nil if this process does not share servers
	cluster *cluster // nil if there are no other processes
	drifts  *drifts
	hooks   hooks
	locked  *locked // nil without Options.Lock

	reloaded, rejected atomic.Uint64
	bad                atomic.Bool // the most recent config on disk was rejected

	settled atomic.Bool // true once every server has been tried
}

// New reads the stored state of the servers from the log and creates the tracker. If a cluster has
// no leader, it waits for up to 30 s. It does not start any goroutines. The caller must close the
// log after Run.
func New(ctx context.Context, desired Desired, log journal.Log, opts Options) (*Engine, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{desired: desired, opts: opts, log: log, texts: &texts{contents: log.Contents(), secrets: map[string][]string{}}}
	if err := e.remember(ctx); err != nil {
		return nil, fmt.Errorf("read the event log: %w", err)
	}
	e.drifts = newDrifts(e)
	if opts.Lock != nil {
		e.locked = newLocked(e, *opts.Lock)
		e.opts.Tracker.Published = e.locked.published
	}
	e.tracker = tracker.New(e.opts.Tracker)
	e.opts.Tracker.Stored = journal.States{} // the tracker has them
	shared, ok := log.(*natslog.Log)
	switch {
	case opts.Role == Alone:
		return e, nil
	case !ok:
		return nil, errors.New("only a log on a NATS cluster can be shared")
	case opts.Role != Watches:
		e.sharing = newSharing(shared, e)
	}
	e.cluster = &cluster{log: shared, tracker: e.tracker, sharing: e.sharing, serves: opts.Role == Serves, seen: map[string]status.Summary{}, sent: map[string]announced{}}
	return e, nil
}

// remember sets the tracker options for the log: a log in memory that stores no texts needs nothing else.
func (e *Engine) remember(ctx context.Context) error {
	b, err := e.log.Bounds(ctx)
	if err != nil {
		return err
	}
	e.first = b.Last + 1
	t := &e.opts.Tracker
	if own, ok := e.log.(*journal.Memory); ok && !own.KeepsContent() && e.opts.Exported == nil {
		t.Log = own
		return nil
	}
	if t.Stored, err = storedStates(ctx, e.log); err != nil {
		return err
	}
	if e.opts.Listed != nil {
		for name, list := range t.Stored.Lists {
			e.opts.Listed(name, list)
		}
	}
	t.SkillFile = e.texts.putSkillFile
	t.Log = &recorder{duty: e.duty, texts: e.texts, listed: e.opts.Listed, exported: e.opts.Exported}
	return nil
}

// duty reports whether this process follows a server, and returns where it stores what it observes; nil
// means that another process stores it.
func (e *Engine) duty(server string) (follow bool, to journal.Recorder) {
	if e.sharing == nil || server == "" {
		return true, e.log
	}
	held, holds := e.sharing.lease(server)
	if !holds {
		return e.opts.Role == Serves, nil
	}
	return e.opts.Role == Serves || !held.leaving, held.lease
}

// Tracker returns the tracker whose events are recorded in the log. Use it to make requests and to
// query the state of the servers; the engine determines what it follows.
func (e *Engine) Tracker() *tracker.Tracker { return e.tracker }

// Log returns the log that was passed to New.
func (e *Engine) Log() journal.Log { return e.log }

// First returns the sequence number of this engine's first event, for readers that do not need
// earlier events.
func (e *Engine) First() uint64 { return e.first }

// Apply replaces the config that is followed. It never blocks; the latest config wins, also before
// Run. Run calls it for the configs in [Desired].
func (e *Engine) Apply(cfg *config.Config) {
	if e.opts.Applied != nil {
		e.opts.Applied(cfg)
	}
	e.texts.apply(cfg)
	e.hooks.apply(cfg.Hooks)
	if e.desired.Select != nil {
		cfg = e.desired.Select(cfg)
	}
	if e.locked != nil {
		e.locked.apply(cfg)
	}
	if e.sharing != nil {
		e.sharing.apply(cfg)
	} else {
		e.tracker.Apply(cfg)
	}
}

// Reloads returns how many times the config was reloaded or rejected.
func (e *Engine) Reloads() status.Reloads {
	return status.Reloads{Reloaded: e.reloaded.Load(), Rejected: e.rejected.Load(), Good: !e.bad.Load()}
}

// LockChanges returns what differs from the lock file, by server, for the servers that were compared; a
// server without differences has an empty list. It is empty if there is no lock file. Do not modify the
// lists. See [Options.Lock] and [Engine.Verdicts].
func (e *Engine) LockChanges() map[string][]guard.Change { return e.drifts.changesNow() }

// Ready returns nil if this process is ready to serve readers: every server has been tried once,
// events can be stored and, if servers are shared, every server is followed by some process.
// Otherwise it returns the reason.
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

// Part is a task run by [Engine.Run], either a source or a reader.
type Part struct {
	run    Task
	source bool
}

// Source returns a part that causes events, such as a gateway whose clients call tools. Its context
// ends with the context of Run; changes that it caused are still published afterwards.
func Source(run Task) Part { return Part{run: run, source: true} }

// Reader returns a part that reads the log. Its context ends once everything has been stored,
// including the events caused by the shutdown of Run.
func Reader(run Task) Part { return Part{run: run} }

// Run follows the servers until ctx ends or a part fails. It then stops the sources and the
// tracker, waits until everything has been stored, and stops the readers. It returns once
// everything that it started has finished, with the error of the first part that failed. It may be
// called only once.
func (e *Engine) Run(ctx context.Context, parts ...Part) error {
	switch {
	case e.desired.Config != nil:
		e.Apply(e.desired.Config) // must precede the configs applied by follow
	case e.desired.Follow != nil:
		e.Apply(&config.Config{})
	}
	running, ctx := errgroup.WithContext(ctx)
	reading, endReaders := context.WithCancel(context.WithoutCancel(ctx))
	defer endReaders()
	start := func(ctx context.Context, task Task) {
		running.Go(func() error {
			if err := task(ctx); ctx.Err() == nil {
				return err
			}
			return nil // cancellation of ctx is not a failure
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
		if p.source {
			source(p.run)
		} else {
			start(reading, p.run)
		}
	}
	if e.sharing != nil {
		start(reading, e.sharing.run)
		start(ctx, e.cluster.announce)
		start(ctx, e.followHooks)
	}
	if e.cluster != nil {
		start(reading, e.cluster.watch)
	}
	if e.desired.Follow != nil {
		source(e.follow)
	}
	source(e.drifts.run)
	if e.locked != nil {
		start(ctx, e.locked.lock.Guard.Run)
		source(e.locked.run)
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

// follow applies every new config that the file contains.
func (e *Engine) follow(ctx context.Context) error {
	opts := *e.desired.Follow
	opts.Current, opts.Apply, opts.Publish = e.desired.Config, e.Apply, func(ev event.Event) {
		switch ev.Type() {
		case event.TypeConfigReloaded:
			e.reloaded.Add(1)
			e.bad.Store(false)
		case event.TypeConfigRejected:
			e.rejected.Add(1)
			e.bad.Store(true)
		}
		e.tracker.Publish(ev)
	}
	return reload.Run(ctx, opts)
}

// flushFor limits how long a shutdown waits for a slow store before the readers are stopped.
const flushFor = 5 * time.Second

// flush waits until everything that was appended can be read. It does not wait for an unavailable
// store; closing the log does.
func (e *Engine) flush(ctx context.Context) {
	if e.log.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushFor)
	defer cancel()
	_ = e.log.Flush(ctx) // Close stores the remaining events or counts them as lost
}
