package filewatch

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"
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
// relative path refers to the current working directory, also if that changes later.
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
// call returns an error at once.
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
