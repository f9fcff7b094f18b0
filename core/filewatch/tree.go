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

// TreeOptions configures a [Tree]. The zero value is usable; a zero field means the default
// documented for it.
type TreeOptions struct {
	// Quiet is how long nothing may change before what has changed is delivered; default 200 ms.
	Quiet time.Duration
	// MaxDirs is the maximum number of watched directories; default 100,000. If there are more, the
	// whole tree is also polled.
	MaxDirs int
	// Ignore reports whether to ignore an entry. Its path is relative to the root and uses slashes.
	// An ignored directory and its contents are neither watched nor delivered. If nil, nothing is
	// ignored. Only Run calls it.
	Ignore func(path string, dir bool) bool
	// Logger receives a message when file events become unreliable or reliable again; nil discards
	// them.
	Logger *slog.Logger

	// Only tests set these.
	maxWait  time.Duration             // how long further changes delay a batch; default 2 s
	poll     time.Duration             // between batches with All set while events are reliable; default 5 min, with a jitter of 20 %
	pollOnly time.Duration             // the same while events are unreliable; default 5 s
	maxPaths int                       // of a batch; default 500; if there are more, it has All set instead
	notify   func() (*notifier, error) // creates the source of file events; default the operating system's
}

func (o TreeOptions) withDefaults() TreeOptions {
	positive(&o.Quiet, 200*time.Millisecond)
	positive(&o.maxWait, 2*time.Second)
	positive(&o.poll, 5*time.Minute)
	positive(&o.pollOnly, 5*time.Second)
	positive(&o.maxPaths, 500)
	positive(&o.MaxDirs, 100_000)
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

// A Batch lists paths that the receiver must read again. The receiver owns it.
type Batch struct {
	// All means that anything in the tree may have changed; Paths is then empty.
	All bool
	// Paths are sorted, relative to the root, and use slashes. Each path, and everything under it,
	// may have been added, changed or removed.
	Paths []string
	// SeenAt is the time of the earliest event or poll that detected one of these changes.
	SeenAt time.Time
}

// A Tree follows a directory and all its descendants. Create it with [NewTree]; it does nothing
// until [Tree.Run] is called. All methods are safe for concurrent use.
type Tree struct {
	name string // directory as passed to NewTree
	root string // absolute path of the directory
	opts TreeOptions

	// batches delivers batches to the receiver. Only Run sends to it and closes it. It is
	// unbuffered: a batch that has not been received yet is merged with the next one.
	batches chan Batch
	started atomic.Bool
}

// NewTree returns a Tree for a directory, which need not exist. The path of the directory may
// contain symbolic links, but links inside the directory are not followed. A relative path is
// resolved against the current working directory at the time of the call.
func NewTree(dir string, opts TreeOptions) *Tree {
	root, err := filepath.Abs(dir)
	if err != nil {
		root = dir // working directory unknown: polled until it exists
	}
	return &Tree{name: dir, root: root, opts: opts.withDefaults(), batches: make(chan Batch)}
}

// Batches returns the channel on which Run delivers batches. The first batch has All set and is
// sent once every directory is watched, so a receiver that then reads everything misses no change.
// If the receiver is slow, batches are merged. Run closes the channel when it returns.
func (t *Tree) Batches() <-chan Batch { return t.batches }

// Run follows the tree until ctx ends. It then releases every watch, closes the channel returned by
// Batches, and returns context.Cause(ctx). No error with the tree or its watches makes it return
// earlier. It must be called only once; a second call returns an error immediately.
func (t *Tree) Run(ctx context.Context) error {
	if t.started.Swap(true) {
		return errRunTwice
	}
	defer close(t.batches)
	r := &treeRun{Tree: t, dirs: watchedDirs{root: t.root, notify: t.opts.notify, ignore: t.opts.Ignore, most: t.opts.MaxDirs}}
	r.dirty = dirtyPaths{debounce: debounce{quiet: t.opts.Quiet, most: t.opts.maxWait}, limit: t.opts.maxPaths}
	defer r.dirs.drop()
	return r.run(ctx)
}

var errRunTwice = errors.New("filewatch: Run called twice")

const (
	// rootCheck is the interval between checks that the root is still the watched directory.
	// Changes to its parent directories cause no events.
	rootCheck = 2 * time.Second
	// eventsRetry is how often new watches are set while events are unreliable, which requires
	// listing the whole tree.
	eventsRetry = time.Minute
)

// A treeRun holds the state of one call to Run. Only the goroutine of Run uses it.
type treeRun struct {
	*Tree
	dirs  watchedDirs
	dirty dirtyPaths

	ready   *Batch        // due but not yet received; nil if none
	rebuild bool          // the event source must be replaced
	polled  time.Time     // time of the last batch with All set
	poll    time.Duration // delay after polled until the next batch with All set
	rebuilt time.Time     // when the event source was last replaced
	rooted  time.Time     // time of the last check of the root
	reason  string        // the reason of dirs when updateMode was last called
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
		events, failed := r.dirs.n.channels()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case out <- batch:
			r.ready = nil
		case <-timer.C:
			r.tick(time.Now())
		case ev, ok := <-events:
			if !ok {
				r.fail()
			} else {
				r.event(ev)
			}
		case <-failed:
			r.fail() // an overflow or a closed source: events were or will be lost
		}
	}
}

// next returns the time of the next scheduled task.
func (r *treeRun) next() time.Time {
	at := r.polled.Add(r.poll)
	if check := r.rooted.Add(rootCheck); check.Before(at) {
		at = check
	}
	if r.dirty.pending() && r.dirty.due().Before(at) {
		at = r.dirty.due()
	}
	return at
}

// tick performs the scheduled tasks that are due at now.
func (r *treeRun) tick(now time.Time) {
	if now.Sub(r.rooted) >= rootCheck {
		r.rooted = now
		if r.dirs.n != nil && r.dirs.moved() && !r.missing() {
			r.rebuild = true
			r.dirty.kickAll(now)
		}
	}
	if now.Sub(r.polled) >= r.poll {
		if r.reason != "" && now.Sub(r.rebuilt) >= eventsRetry {
			r.rebuild = true
		}
		r.dirty.kickAll(now)
		r.flush(now.Add(r.opts.maxWait))
		return
	}
	r.flush(now)
}

// missing reports whether the root is absent now and was already absent when the watches were last
// set.
func (r *treeRun) missing() bool {
	_, err := r.dirs.lstat(".")
	return err != nil && r.dirs.watched["."] == nil
}

// flush builds a batch from the changes that are due at the given time. If the event source must be
// replaced, flush sets the new watches before it builds the batch: later changes then cause an
// event, and the receiver finds earlier ones when it reads.
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
	r.ready = merge(r.ready, b, r.opts.maxPaths)
}

// settled restarts the interval until the next poll.
func (r *treeRun) settled(now time.Time) {
	r.polled, r.poll = now, r.opts.poll+time.Duration((rand.Float64()-0.5)*0.4*float64(r.opts.poll))
	if r.reason != "" {
		r.poll = r.opts.pollOnly
	}
}

// renew replaces the event source.
func (r *treeRun) renew(now time.Time) {
	r.rebuild, r.rebuilt, r.rooted = false, now, now
	r.dirs.rebuild()
	r.updateMode()
}

// updateMode polls more often if events have become unreliable, and logs every change of that.
func (r *treeRun) updateMode() {
	logReason(r.opts.Logger, r.name, r.reason, r.dirs.reason, r.opts.pollOnly)
	if r.reason = r.dirs.reason; r.reason != "" {
		r.poll = min(r.poll, r.opts.pollOnly)
	}
}

// event handles one file event: it marks the path as possibly changed and watches a new directory.
func (r *treeRun) event(ev fsnotify.Event) {
	rel, ok := r.dirs.relative(ev.Name)
	if !ok || ev.Op == 0 || r.dirs.ignored(rel, false) && r.dirs.ignored(rel, true) {
		return
	}
	now := time.Now()
	if ev.Has(fsnotify.Rename|fsnotify.Remove) && r.dirs.forget(rel) && ev.Has(fsnotify.Rename) {
		// The watches may already have been registered under the new name, in which case forget has
		// removed them. A new event source is correct in either case.
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
			r.rebuild = true // the directory was moved or removed
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

// fail discards an event source that lost events or was closed.
func (r *treeRun) fail() {
	r.dirs.drop()
	r.rebuild = true
	r.dirty.kickAll(time.Now())
}
