package filewatch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/fsnotify/fsnotify"
)

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
