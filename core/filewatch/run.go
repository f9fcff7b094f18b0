package filewatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Run follows the file until ctx ends, then releases every watch, closes the
// channel of Changes and returns context.Cause(ctx). Nothing that happens to the
// file or to its watches makes it return earlier. It must be called once; a
// second call returns an error at once.
func (f *File) Run(ctx context.Context) error {
	if f.started.Swap(true) {
		return errors.New("filewatch: Run called twice")
	}
	defer close(f.changes)
	r := &run{
		File:     f,
		follower: follower{target: f.path, notify: f.opts.notify},
		burst:    debounce{quiet: f.opts.Quiet, most: f.opts.MaxWait},
	}
	defer r.drop()
	if f.opts.Baseline != [sha256.Size]byte{} {
		r.delivered = &result{digest: f.opts.Baseline}
	}
	r.check(byPoll)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at, why := r.next()
		timer.Reset(time.Until(at))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			r.check(why)
		case <-f.kicks:
			r.check(byKick)
		case ev, ok := <-r.events():
			if !ok {
				r.fail()
			} else if r.relevant(ev) {
				r.event(ev)
			}
		case <-r.errors():
			r.fail() // an overflow, a dead source: events were or will be lost
		}
	}
}

// A cause is the reason of a check. It determines whether the content counts as
// settled.
type cause int

const (
	byPoll  cause = iota // a writer may be active
	byRetry              // likewise, shortly after a problem
	byQuiet              // the burst of events is over
	byKick               // the caller of Kick vouches for the content
)

// A result is the state of the file at one check.
type result struct {
	digest  [sha256.Size]byte
	missing bool
	problem string // text of the error, "" if there is none
}

// A run is the state of one Run, used by its goroutine only.
type run struct {
	*File
	follower

	burst  debounce
	seenAt time.Time // first sign of a change not yet settled
	polled time.Time // last check of any cause

	delivered *result // nil: nothing yet

	// unconfirmed is the digest of content whose writer may still be active. If it is
	// unchanged after Quiet it counts as settled, and so does any content MaxWait after
	// unconfirmedSince.
	unconfirmed      *[sha256.Size]byte
	unconfirmedSince time.Time

	attempt int       // number of retries of the current problem
	retry   time.Time // when the next retry is due; zero: there is none
}

// retryDelay returns the delay before the nth retry (from 0) of a file that is absent,
// empty or unreadable; ok is false after the last one.
func retryDelay(n int) (d time.Duration, ok bool) {
	return 50 * time.Millisecond << n, n < 5
}

// next returns when to check if nothing else happens, and the cause.
func (r *run) next() (time.Time, cause) {
	if r.burst.pending() {
		// Neither a retry nor a poll may read during a write; the check at the end of
		// the burst replaces them.
		return r.burst.due(), byQuiet
	}
	interval := r.opts.Poll
	if r.Mode().Kind == ModePoll {
		interval = r.opts.PollOnly
	}
	poll := r.polled.Add(interval)
	if !r.retry.IsZero() && r.retry.Before(poll) {
		return r.retry, byRetry
	}
	return poll, byPoll
}

func (r *run) sign(now time.Time) {
	if r.seenAt.IsZero() {
		r.seenAt = now
	}
}

// event records a relevant event.
func (r *run) event(ev fsnotify.Event) {
	now := time.Now()
	r.sign(now)
	r.burst.kick(now)
	if ev.Op&^(fsnotify.Write|fsnotify.Chmod) != 0 {
		// The path may resolve elsewhere. Watch there at once, so that writes there
		// extend this burst.
		r.adjust()
	}
}

// fail drops a source that lost events or was closed.
func (r *run) fail() {
	now := time.Now()
	r.sign(now)
	r.burst.kick(now)
	r.drop()
}

// adjust updates watches and mode. It reports whether events would have reported any
// write before this call.
func (r *run) adjust() (observed bool) {
	fresh, reason := r.follow()
	mode := Mode{Kind: ModeInotify}
	if reason != "" {
		mode = Mode{Kind: ModePoll, Reason: reason}
	}
	before := r.mode.Swap(&mode)
	first := r.polled.IsZero()
	switch {
	case mode.Kind == ModePoll && (first || before.Kind != ModePoll):
		r.opts.Logger.Warn("file change events are unreliable for this path; polling instead",
			slog.String("path", r.name), slog.Duration("interval", r.opts.PollOnly), slog.String("reason", reason))
	case mode.Kind == ModeInotify && !first && before.Kind != ModeInotify:
		r.opts.Logger.Info("file change events are reliable again", slog.String("path", r.name))
	}
	return !fresh && mode.Kind == ModeInotify
}

// check reads the file and delivers its state if that is settled and new.
func (r *run) check(why cause) {
	starved := r.burst.starved()
	if why == byQuiet {
		r.burst.reset()
	}
	observed := r.adjust()
	data, modified, err := read(r.path, r.opts.MaxBytes)
	now := time.Now()
	r.polled = now
	if errors.Is(err, errUnstable) {
		r.sign(now)
		r.burst.kick(now) // a writer is active, even if its event has not arrived
		return
	}
	if err != nil {
		r.checkFailed(now, err)
		return
	}
	r.attempt, r.retry = 0, time.Time{}
	v := result{digest: sha256.Sum256(data)}
	same := r.delivered != nil && *r.delivered == v
	if same && !r.again.Load() {
		r.settle()
		return
	}
	r.sign(now)
	// On a loaded machine events arrive late. The modification time detects that, as
	// long as the clocks of file system and system agree.
	age := now.Sub(modified)
	young := 0 <= age && age < r.opts.Quiet
	quiet := why == byQuiet && observed && (starved || !young)
	if same || why == byKick || quiet || r.confirmed(now, v.digest) {
		r.deliver(v, Change{Data: data, Digest: v.digest})
		return
	}
	r.burst.kick(now)
}

// confirmed reports whether content with this digest counts as settled, because the last
// check saw the same or MaxWait has passed. If not, it remembers the digest for the next
// check.
func (r *run) confirmed(now time.Time, digest [sha256.Size]byte) bool {
	if r.unconfirmed == nil {
		r.unconfirmedSince = now
	} else if *r.unconfirmed == digest || now.Sub(r.unconfirmedSince) >= r.opts.MaxWait {
		return true
	}
	r.unconfirmed = &digest
	return false
}

// checkFailed handles a check without content. Most often a save is in progress, so
// the problem is delivered only after retries.
func (r *run) checkFailed(now time.Time, err error) {
	r.unconfirmed = nil
	missing := errors.Is(err, errMissing)
	v := result{missing: missing}
	if !missing {
		v.problem = printable.Reason(err, 300)
	}
	if r.delivered != nil && *r.delivered == v && !r.again.Load() {
		r.attempt, r.retry = 0, time.Time{}
		r.settle()
		return
	}
	r.sign(now)
	if now.Before(r.retry) {
		return // an event caused this check, the retry is still due
	}
	if d, ok := retryDelay(r.attempt); ok {
		r.attempt++
		r.retry = now.Add(d)
		return
	}
	r.attempt, r.retry = 0, time.Time{}
	if missing {
		r.deliver(v, Change{Missing: true})
	} else {
		r.deliver(v, Change{Err: err})
	}
}

// deliver sends a settled state. It replaces one that was not received yet.
func (r *run) deliver(v result, c Change) {
	c.Path, c.SeenAt = r.name, r.seenAt
	r.again.Store(false)
	r.delivered = &v
	r.settle()
	select {
	case <-r.changes:
	default:
	}
	r.changes <- c // never blocks: this is the only sender
}

// settle ends the processing of a change: nothing is unconfirmed any more.
func (r *run) settle() {
	r.unconfirmed = nil
	if !r.burst.pending() { // else a Kick was handled within a burst that continues
		r.seenAt = time.Time{}
	}
}
