package filewatch

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"
)

// TreeOptions tune a [Tree]. The zero value is usable; zero fields mean the
// default named beside them.
type TreeOptions struct {
	// Quiet is how long a path must be left alone before it is told; 200 ms.
	Quiet time.Duration
	// MaxWait bounds how long a path that is never left alone is put off; 2 s.
	MaxWait time.Duration
	// Poll is the time between two looks at everything that no event asked for,
	// while events work; 5 min. It varies by a fifth.
	Poll time.Duration
	// PollOnly is the same while events cannot be relied upon; 5 s.
	PollOnly time.Duration
	// MaxPaths bounds the paths of one batch; 500. More become "everything".
	MaxPaths int
	// MaxDirs bounds the directories that are watched; 100,000. With more, all are
	// polled as well.
	MaxDirs int
	// Ignore says which entries do not matter, by their path relative to the root,
	// with slashes. Nothing below an ignored directory is watched or told. nil:
	// none. It is called by Run alone.
	Ignore func(path string, dir bool) bool
	// Logger gets one line when events stop or start to work; nil means none.
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

// A Batch asks its receiver, who owns it, to look again.
type Batch struct {
	// All asks for a look at everything; Paths is empty then.
	All bool
	// Paths are sorted, relative to the root and with slashes. What each of them
	// names may have changed, come or gone, and so may anything below it.
	Paths []string
	// SeenAt is the first sign of any of these changes.
	SeenAt time.Time
}

// A Tree follows a directory and everything below it. Make it with [NewTree]; it
// does nothing until [Tree.Run]. All methods may be called from any goroutine.
type Tree struct {
	name string // as given
	root string // absolute
	opts TreeOptions

	// batches: sent and closed by Run alone. Unbuffered: what nobody has taken yet
	// is merged with what comes.
	batches chan Batch
	// kicks: sent by Kick, received by Run, never closed. Capacity 1, because two
	// requests to look now are answered by one look.
	kicks chan struct{}

	started atomic.Bool
	mode    atomic.Pointer[Mode]
}

// NewTree returns a Tree for a directory, which need not exist. The directory
// itself may be reached through symbolic links; those below it are not followed.
// A relative path is bound to the working directory of this moment.
func NewTree(dir string, opts TreeOptions) *Tree {
	root, err := filepath.Abs(dir)
	if err != nil {
		root = dir // without a working directory: found again if it ever can be
	}
	t := &Tree{name: dir, root: root, opts: opts.withDefaults(), batches: make(chan Batch), kicks: make(chan struct{}, 1)}
	t.mode.Store(&Mode{Kind: ModePoll, Reason: "not started"})
	return t
}

// Batches returns the channel of what to look at. Its first batch says "all" and
// comes once every directory is watched, so that a receiver who looks then misses
// nothing. A slow receiver holds up nobody: what comes meanwhile is merged. Run
// closes the channel when it returns.
func (t *Tree) Batches() <-chan Batch { return t.batches }

// Kick asks for a look at everything now. It never blocks.
func (t *Tree) Kick() {
	select {
	case t.kicks <- struct{}{}:
	default:
	}
}

// Mode says how changes are found at present.
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
