package filewatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/mcptrack/mcptrack/core/printable"
)

// FileOptions configure a [File]. The zero value is usable; zero fields mean the
// documented default.
type FileOptions struct {
	// Quiet is how long the file must be unchanged before it is read; 100 ms. Shorter
	// periods see partial saves of many editors.
	Quiet time.Duration
	// MaxWait limits how long events may delay the read; 1 s.
	MaxWait time.Duration
	// Poll is the polling interval while events work; 10 s.
	Poll time.Duration
	// PollOnly is the polling interval while events are unreliable; 2 s.
	PollOnly time.Duration
	// MaxBytes is the largest content that is read; 1 MiB. A larger file is an error
	// and is not read.
	MaxBytes int64
	// Baseline is the SHA-256 of content that the consumer has already loaded. It
	// counts as delivered: equal content is not delivered at the start, and a change
	// between loading and watching is not lost. With the zero value Run delivers the
	// first state in any case.
	Baseline [sha256.Size]byte
	// Logger logs when events stop or start to work; nil discards.
	Logger *slog.Logger

	// notify makes the source of events; tests replace it. nil: the system's.
	notify func() (*notifier, error)
}

func (o FileOptions) withDefaults() FileOptions {
	positive(&o.Quiet, 100*time.Millisecond)
	positive(&o.MaxWait, time.Second)
	positive(&o.Poll, 10*time.Second)
	positive(&o.PollOnly, 2*time.Second)
	positive(&o.MaxBytes, 1<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.notify == nil {
		o.notify = newNotifier
	}
	return o
}

func positive[T ~int64](v *T, fallback T) {
	if *v <= 0 {
		*v = fallback
	}
}

// A Change is one settled state of the file: its content, or that it is Missing,
// or an Err. The receiver owns Data.
type Change struct {
	Path    string            // as given to NewFile
	Data    []byte            // nil if Missing or Err
	Digest  [sha256.Size]byte // SHA-256 of Data
	Missing bool              // absent or empty after all retries
	Err     error             // unreadable, not a regular file, or larger than MaxBytes
	SeenAt  time.Time         // the first event or poll of this change, to measure latency
}

// A File follows one path and delivers its content whenever that differs from the
// last delivery. Make it with [NewFile]; it does nothing until [File.Run]. All
// methods are safe for concurrent use.
type File struct {
	name string // as given
	path string // absolute, not cleaned: the kernel must resolve "link/.."
	opts FileOptions

	// changes: sent and closed by Run only. Capacity 1, because only the newest state
	// matters: Run replaces a state that has not been received yet.
	changes chan Change
	// kicks: sent by Kick, received by Run, never closed. Capacity 1, because one
	// check answers any number of requests.
	kicks chan struct{}

	started atomic.Bool
	again   atomic.Bool // set by Retry, reset by the next delivery
	mode    atomic.Pointer[Mode]
}

// NewFile returns a File for path, which need not exist. A relative path refers to
// the current working directory, even if that changes later.
func NewFile(path string, opts FileOptions) *File {
	f := &File{
		name:    path,
		path:    path,
		opts:    opts.withDefaults(),
		changes: make(chan Change, 1),
		kicks:   make(chan struct{}, 1),
	}
	if !filepath.IsAbs(path) {
		// Without a working directory the path stays relative, and Run delivers the
		// error of opening it until it exists.
		if dir, err := os.Getwd(); err == nil {
			f.path = dir + string(filepath.Separator) + path
		}
	}
	f.mode.Store(&Mode{Kind: ModePoll, Reason: "not started"})
	return f
}

// Changes returns the channel of deliveries. Its capacity is one: a newer state
// replaces one not yet received, so a slow consumer gets the newest state and does
// not block Run. Content may therefore equal what the consumer received last. Run
// closes the channel when it returns.
func (f *File) Changes() <-chan Change { return f.changes }

// Kick requests a check now, without waiting for a quiet period: the content counts
// as settled (after an operator's SIGHUP, for example). It never blocks. Content equal
// to the last delivery is not delivered again, unless Retry is called before.
func (f *File) Kick() {
	select {
	case f.kicks <- struct{}{}:
	default:
	}
}

// Retry makes the next check, at the latest the next poll, deliver its state even if
// it was delivered before. A consumer calls it when it could not apply a Change for a
// temporary reason. It never blocks; one call causes one delivery.
func (f *File) Retry() { f.again.Store(true) }

// Mode returns how changes are found at present.
func (f *File) Mode() Mode { return *f.mode.Load() }

// Run follows the file until ctx ends, then releases every watch, closes the
// channel of Changes and returns context.Cause(ctx). Nothing that happens to the
// file or to its watches makes it return earlier. It must be called once; a
// second call returns an error immediately.
func (f *File) Run(ctx context.Context) error {
	if f.started.Swap(true) {
		return errors.New("filewatch: Run called twice")
	}
	defer close(f.changes)
	r := &run{
		File:      f,
		pathWatch: pathWatch{target: f.path, notify: f.opts.notify},
		burst:     debounce{quiet: f.opts.Quiet, most: f.opts.MaxWait},
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
	pathWatch

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
		// The path may resolve elsewhere. Watch there immediately, so that writes there
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

var (
	// errMissing: the file is absent or has no bytes, which are equivalent during a
	// save.
	errMissing = errors.New("absent or empty")
	// errUnstable: the file changed while it was read.
	errUnstable = errors.New("changed while it was read")
)

// read returns the content of a regular file of at most limit bytes, and its
// modification time. The metadata was the same before and after reading. It never
// blocks on a FIFO or device. Equal problems have equal error texts, so that each is
// delivered once.
func read(path string, limit int64) (data []byte, modified time.Time, err error) {
	data, modified, err = readStable(path, limit)
	switch {
	case err == nil, errors.Is(err, errUnstable):
		return data, modified, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, modified, errMissing
	}
	return nil, modified, fmt.Errorf("read %q: %w", path, printable.Unnamed(err)) // whose path is raw
}

func readStable(path string, limit int64) (data []byte, modified time.Time, err error) {
	// Before opening: opening alone has effects on some devices.
	info, err := os.Stat(path)
	if err != nil {
		return nil, modified, err
	}
	if err := regular(info); err != nil {
		return nil, modified, err
	}
	file, err := open(path)
	if err != nil {
		return nil, modified, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return nil, modified, err
	}
	if err := regular(before); err != nil {
		return nil, modified, err // replaced since Stat
	}
	if before.Size() > limit {
		return nil, modified, tooLarge(limit)
	}
	data, err = io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, modified, err
	}
	after, err := file.Stat()
	if err != nil {
		return nil, modified, err
	}
	switch {
	case int64(len(data)) > limit:
		return nil, modified, tooLarge(limit)
	case before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()):
		return nil, modified, errUnstable
	case len(data) == 0:
		return nil, modified, fs.ErrNotExist
	}
	return data, after.ModTime(), nil
}

func regular(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	return nil
}

func tooLarge(limit int64) error { return fmt.Errorf("larger than %d bytes", limit) }
