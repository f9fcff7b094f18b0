package filewatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
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
		r.told = &verdict{digest: f.opts.Baseline}
	}
	r.look(byPoll)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at, why := r.next()
		timer.Reset(time.Until(at))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			r.look(why)
		case <-f.kicks:
			r.look(byKick)
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

// A cause is why a look is made. It decides how far what is seen can be trusted.
type cause int

const (
	byPoll  cause = iota // nobody knows what the writer is doing
	byRetry              // likewise, but a problem was seen shortly before
	byQuiet              // the burst of events is over
	byKick               // somebody vouches for the file
)

// A verdict is what can be known of the file at one look.
type verdict struct {
	digest  [sha256.Size]byte
	missing bool
	problem string // text of the error, "" if there is none
}

// A run is the state of one Run. Everything in it belongs to that goroutine.
type run struct {
	*File
	follower

	burst  debounce
	seenAt time.Time // first sign of a change not yet settled
	polled time.Time // last look of any cause

	told *verdict // delivered last; nil: nothing yet

	// doubt is content seen at a look that could not tell whether the writer was
	// done. Seen again after Quiet it counts as settled, and so does whatever is
	// there MaxWait after doubtSince.
	doubt      *[sha256.Size]byte
	doubtSince time.Time

	attempt int       // how many retries of a problem were begun
	retry   time.Time // when the present one is due; zero: no problem
}

// retryDelay returns how long to wait before the nth look (from 0) at a file that
// is absent, empty or unreadable; ok is false when it has had its chances.
func retryDelay(n int) (d time.Duration, ok bool) {
	return 50 * time.Millisecond << n, n < 5
}

// next says when to look if nothing else happens, and why.
func (r *run) next() (time.Time, cause) {
	if r.burst.pending() {
		// Neither a retry nor a poll may read what is still being written; the
		// end of the burst serves for them.
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

// event takes note of a relevant event.
func (r *run) event(ev fsnotify.Event) {
	now := time.Now()
	r.sign(now)
	r.burst.kick(now)
	if ev.Op&^(fsnotify.Write|fsnotify.Chmod) != 0 {
		// The path may lead elsewhere. Watch there at once: writes there must
		// count for the quiet of this burst.
		r.adjust()
	}
}

// fail replaces a source of events that lost some or died.
func (r *run) fail() {
	now := time.Now()
	r.sign(now)
	r.burst.kick(now)
	r.drop()
}

// adjust brings watches and mode up to date. It reports whether the quiet before
// this call was observed, that is, whether events would have told of writes.
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
		r.opts.Logger.Warn("file events are not reliable here, polling",
			slog.String("path", r.name), slog.Duration("interval", r.opts.PollOnly), slog.String("reason", reason))
	case mode.Kind == ModeInotify && !first && before.Kind != ModeInotify:
		r.opts.Logger.Info("file events work again", slog.String("path", r.name))
	}
	return !fresh && mode.Kind == ModeInotify
}

// look reads the file and delivers what is settled and new.
func (r *run) look(why cause) {
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
		r.burst.kick(now) // there is a writer, whether its event is here yet or not
		return
	}
	if err != nil {
		r.lookProblem(now, err)
		return
	}
	r.attempt, r.retry = 0, time.Time{}
	v := verdict{digest: sha256.Sum256(data)}
	same := r.told != nil && *r.told == v
	if same && !r.again.Load() {
		r.settle()
		return
	}
	r.sign(now)
	// On a loaded machine events reach us late and the quiet may be our own. The
	// file knows better, as long as its clock and ours agree.
	age := now.Sub(modified)
	young := 0 <= age && age < r.opts.Quiet
	quiet := why == byQuiet && observed && (starved || !young)
	if same || why == byKick || quiet || r.confirmed(now, v.digest) {
		r.deliver(v, Change{Data: data, Digest: v.digest})
		return
	}
	r.burst.kick(now)
}

// confirmed reports whether content in doubt may be taken as settled, and
// remembers it for the next look if not.
func (r *run) confirmed(now time.Time, digest [sha256.Size]byte) bool {
	if r.doubt == nil {
		r.doubtSince = now
	} else if *r.doubt == digest || now.Sub(r.doubtSince) >= r.opts.MaxWait {
		return true
	}
	r.doubt = &digest
	return false
}

// lookProblem handles a look that found no content: most often the middle of a
// save, so it is told only when it stays.
func (r *run) lookProblem(now time.Time, err error) {
	r.doubt = nil
	missing := errors.Is(err, errMissing)
	v := verdict{missing: missing}
	if !missing {
		v.problem = err.Error()
	}
	if r.told != nil && *r.told == v && !r.again.Load() {
		r.attempt, r.retry = 0, time.Time{}
		r.settle()
		return
	}
	r.sign(now)
	if now.Before(r.retry) {
		return // an event made us look between two retries
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

// deliver hands out a settled state, in place of one that nobody has taken.
func (r *run) deliver(v verdict, c Change) {
	c.Path, c.SeenAt = r.name, r.seenAt
	r.again.Store(false)
	r.told = &v
	r.settle()
	select {
	case <-r.changes:
	default:
	}
	r.changes <- c // never blocks: there is no other sender
}

// settle ends the search that the first sign of a change began.
func (r *run) settle() {
	r.doubt = nil
	if !r.burst.pending() { // else a Kick was answered within a burst that goes on
		r.seenAt = time.Time{}
	}
}
