package filewatch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TreeOptions configure a [Tree]. The zero value is usable; zero fields mean the
// documented default.
type TreeOptions struct {
	// Quiet is how long a path must be unchanged before it is delivered; 200 ms.
	Quiet time.Duration
	// MaxWait limits how long a path that keeps changing is delayed; 2 s.
	MaxWait time.Duration
	// Poll is the interval of batches for everything while events work; 5 min, with a
	// jitter of 20 %.
	Poll time.Duration
	// PollOnly is the same while events are unreliable; 5 s.
	PollOnly time.Duration
	// MaxPaths limits the paths of one batch; 500. More become a batch for everything.
	MaxPaths int
	// MaxDirs limits the watched directories; 100,000. With more, the whole tree is
	// also polled.
	MaxDirs int
	// Ignore reports whether to ignore an entry, by its path relative to the root, with
	// slashes. Nothing below an ignored directory is watched or delivered. nil ignores
	// nothing. It is called by Run only.
	Ignore func(path string, dir bool) bool
	// Logger logs when events stop or start to work; nil discards.
	Logger *slog.Logger

	// notify makes the source of events; tests replace it. nil: the system's.
	notify func() (*notifier, error)
}

func (o TreeOptions) withDefaults() TreeOptions {
	positive(&o.Quiet, 200*time.Millisecond)
	positive(&o.MaxWait, 2*time.Second)
	positive(&o.Poll, 5*time.Minute)
	positive(&o.PollOnly, 5*time.Second)
	if o.MaxPaths <= 0 {
		o.MaxPaths = 500
	}
	if o.MaxDirs <= 0 {
		o.MaxDirs = 100_000
	}
	if o.Ignore == nil {
		o.Ignore = func(string, bool) bool { return false }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.notify == nil {
		o.notify = newNotifier
	}
	return o
}

// A Batch lists paths to read again. The receiver owns it.
type Batch struct {
	// All means everything; Paths is empty then.
	All bool
	// Paths are sorted, relative to the root and with slashes. Each of them, and
	// anything below it, may have been added, changed or removed.
	Paths []string
	// SeenAt is the time of the first event or poll of any of these changes.
	SeenAt time.Time
}

// A Tree follows a directory and everything below it. Make it with [NewTree]; it
// does nothing until [Tree.Run]. All methods are safe for concurrent use.
type Tree struct {
	name string // as given
	root string // absolute
	opts TreeOptions

	// batches: sent and closed by Run only. Unbuffered: a batch that was not received
	// yet is merged with the next one.
	batches chan Batch
	// kicks: sent by Kick, received by Run, never closed. Capacity 1, because one
	// batch answers any number of requests.
	kicks chan struct{}

	started atomic.Bool
	mode    atomic.Pointer[Mode]
}

// NewTree returns a Tree for a directory, which need not exist. The directory
// itself may be reached through symbolic links; those below it are not followed. A
// relative path refers to the current working directory, even if that changes later.
func NewTree(dir string, opts TreeOptions) *Tree {
	root, err := filepath.Abs(dir)
	if err != nil {
		root = dir // no working directory: polled until it exists
	}
	t := &Tree{name: dir, root: root, opts: opts.withDefaults(), batches: make(chan Batch), kicks: make(chan struct{}, 1)}
	t.mode.Store(&Mode{Kind: ModePoll, Reason: "not started"})
	return t
}

// Batches returns the channel of batches. The first one is for everything and is sent
// after every directory is watched, so that a receiver that reads then misses nothing.
// Batches for a slow receiver are merged. Run closes the channel when it returns.
func (t *Tree) Batches() <-chan Batch { return t.batches }

// Kick requests a batch for everything now. It never blocks.
func (t *Tree) Kick() {
	select {
	case t.kicks <- struct{}{}:
	default:
	}
}

// Mode returns how changes are found at present.
func (t *Tree) Mode() Mode { return *t.mode.Load() }

// Run follows the tree until ctx ends, then releases every watch, closes the
// channel of batches and returns context.Cause(ctx). Nothing that happens to the
// tree or to its watches makes it return earlier. It must be called once; a second
// call returns an error immediately.
func (t *Tree) Run(ctx context.Context) error {
	if t.started.Swap(true) {
		return errRunTwice
	}
	defer close(t.batches)
	r := &treeRun{Tree: t, dirs: watchedDirs{root: t.root, notify: t.opts.notify, ignore: t.opts.Ignore, most: t.opts.MaxDirs}}
	r.dirty = dirtyPaths{quiet: t.opts.Quiet, most: t.opts.MaxWait, limit: t.opts.MaxPaths}
	defer r.dirs.drop()
	return r.run(ctx)
}

var errRunTwice = errors.New("filewatch: Run called twice")

const (
	// rootCheck is the interval of checks whether the root is still the watched
	// directory. Changes of its parents give no events.
	rootCheck = 2 * time.Second
	// eventsRetry is how often a tree with unreliable events sets new watches, which
	// lists the whole tree.
	eventsRetry = time.Minute
)

// A treeRun is the state of one Run, used by its goroutine only.
type treeRun struct {
	*Tree
	dirs  watchedDirs
	dirty dirtyPaths

	ready   *Batch        // due, and not received yet
	rebuild bool          // the source of events must be replaced
	flushed time.Time     // last batch
	polled  time.Time     // last batch for everything
	poll    time.Duration // from polled to the next batch for everything
	rebuilt time.Time     // when the source was last replaced
	rooted  time.Time     // last check of the root
}

func (r *treeRun) run(ctx context.Context) error {
	now := time.Now()
	r.renew(now)
	r.ready = &Batch{All: true, SeenAt: now}
	r.settled(now)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(r.next()))
		var out chan<- Batch
		var batch Batch
		if r.ready != nil {
			out, batch = r.batches, *r.ready
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case out <- batch:
			r.ready = nil
		case <-timer.C:
			r.tick(time.Now())
		case <-r.kicks:
			now := time.Now()
			r.dirty.kickAll(now)
			r.flush(now.Add(r.opts.MaxWait))
		case ev, ok := <-r.dirs.events():
			if !ok {
				r.fail()
			} else {
				r.event(ev)
			}
		case <-r.dirs.errors():
			r.fail() // an overflow, a dead source: events were or will be lost
		}
	}
}

// next returns when the next timed work is due if nothing else happens.
func (r *treeRun) next() time.Time {
	at := r.polled.Add(r.poll)
	if check := r.rooted.Add(rootCheck); check.Before(at) {
		at = check
	}
	if due, ok := r.dirty.due(); ok {
		if gap := r.flushed.Add(r.dirty.gap()); due.Before(gap) {
			due = gap
		}
		if due.Before(at) {
			at = due
		}
	}
	return at
}

// tick does the timed work that is due at now.
func (r *treeRun) tick(now time.Time) {
	if now.Sub(r.rooted) >= rootCheck {
		r.rooted = now
		if r.dirs.n != nil && r.dirs.moved() && !r.missing() {
			r.rebuild = true
			r.dirty.kickAll(now)
		}
	}
	if now.Sub(r.polled) >= r.poll {
		if r.Mode().Kind == ModePoll && now.Sub(r.rebuilt) >= eventsRetry {
			r.rebuild = true
		}
		r.dirty.kickAll(now)
		r.flush(now.Add(r.opts.MaxWait))
		return
	}
	if now.Sub(r.flushed) >= r.dirty.gap() {
		r.flush(now)
	}
}

// missing reports whether the root is absent and was absent when watches were last set.
func (r *treeRun) missing() bool {
	_, err := r.dirs.lstat(".")
	return err != nil && r.dirs.watched["."] == nil
}

// flush makes a batch of what is due at the given time. If the source must be replaced, new
// watches are set before the batch is made: later changes give an event, and the receiver
// finds earlier ones when it reads.
func (r *treeRun) flush(at time.Time) {
	b := r.dirty.take(at)
	if b == nil {
		return
	}
	now := time.Now()
	if r.rebuild {
		r.renew(now)
		b = &Batch{All: true, SeenAt: b.SeenAt}
	}
	if b.All {
		r.settled(now)
	}
	r.flushed = now
	r.ready = merge(r.ready, b, r.opts.MaxPaths)
}

// settled starts the time to the next poll.
func (r *treeRun) settled(now time.Time) {
	r.polled, r.poll = now, r.opts.Poll+time.Duration((rand.Float64()-0.5)*0.4*float64(r.opts.Poll))
	if r.Mode().Kind == ModePoll {
		r.poll = r.opts.PollOnly
	}
}

// renew replaces the source of events.
func (r *treeRun) renew(now time.Time) {
	r.rebuild, r.rebuilt, r.rooted = false, now, now
	r.dirs.rebuild()
	r.updateMode()
}

// updateMode sets the mode by whether events are reliable, and logs when it changes.
func (r *treeRun) updateMode() {
	mode := Mode{Kind: ModeInotify}
	if r.dirs.reason != "" {
		mode = Mode{Kind: ModePoll, Reason: r.dirs.reason}
	}
	before := r.mode.Swap(&mode)
	first := r.polled.IsZero()
	switch {
	case mode.Kind == ModePoll && (first || before.Kind != ModePoll):
		r.opts.Logger.Warn("file change events are unreliable for this path; polling instead",
			slog.String("path", r.name), slog.Duration("interval", r.opts.PollOnly), slog.String("reason", mode.Reason))
	case mode.Kind == ModeInotify && !first && before.Kind != ModeInotify:
		r.opts.Logger.Info("file change events are reliable again", slog.String("path", r.name))
	}
	if mode.Kind == ModePoll && before.Kind != ModePoll {
		r.poll = min(r.poll, r.opts.PollOnly)
	}
}

// event handles one event of the source: it records the path as possibly changed and watches
// a new directory.
func (r *treeRun) event(ev fsnotify.Event) {
	rel, ok := r.dirs.relative(ev.Name)
	if !ok || ev.Op == 0 || r.dirs.ignored(rel, false) && r.dirs.ignored(rel, true) {
		return
	}
	now := time.Now()
	if ev.Has(fsnotify.Rename|fsnotify.Remove) && r.dirs.forget(rel) && ev.Has(fsnotify.Rename) {
		// The watches may already have been registered under the new name, and forget
		// has removed them. A new source is correct in any case.
		r.rebuild = true
		r.dirty.kickAll(now)
		return
	}
	info, err := r.dirs.lstat(rel)
	dir := err == nil && info.IsDir()
	if err == nil && r.dirs.ignored(rel, dir) {
		return
	}
	if rel == "." {
		if !ev.Has(fsnotify.Chmod) {
			r.rebuild = true // moved or removed
		}
		r.dirty.kickAll(now)
		return
	}
	if dir && r.dirs.n != nil {
		r.dirs.add(rel)
		r.updateMode()
	}
	r.dirty.kick(rel, now)
}

// fail drops a source that lost events or was closed.
func (r *treeRun) fail() {
	r.dirs.drop()
	r.rebuild = true
	r.dirty.kickAll(time.Now())
}
