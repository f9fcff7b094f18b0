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

// FileOptions configures a [File]. The zero value is usable; a zero field means the default
// documented for it.
type FileOptions struct {
	// Quiet is how long the file must remain unchanged before it is read; default 100 ms. With a
	// shorter period, partial saves by many editors become visible.
	Quiet time.Duration
	// MaxWait is the maximum time for which further events may delay a read; default 1 s.
	MaxWait time.Duration
	// Poll is the polling interval while events are reliable; default 10 s.
	Poll time.Duration
	// PollOnly is the polling interval while events are unreliable; default 2 s.
	PollOnly time.Duration
	// MaxBytes is the maximum size of the file; default 1 MiB. A larger file is not read and is
	// reported as an error.
	MaxBytes int64
	// Baseline is the SHA-256 digest of the content that the consumer has already loaded. Run
	// treats that content as delivered: it does not deliver it again at the start, and a change
	// between loading and watching is not lost. If Baseline is zero, Run always delivers the first
	// state.
	Baseline [sha256.Size]byte
	// Logger receives a message when file events become unreliable or reliable again; nil discards
	// them.
	Logger *slog.Logger

	// notify creates the source of file events. If nil, the operating system's is used; tests
	// replace it.
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

// A Change is one settled state of the file: exactly one of Data (its content), Missing and Err is
// set. The receiver owns Data.
type Change struct {
	Path    string            // as passed to NewFile
	Data    []byte            // content; nil if Missing or Err is set
	Digest  [sha256.Size]byte // SHA-256 digest of Data
	Missing bool              // still absent or empty after all retries
	Err     error             // the file is unreadable, not a regular file, or larger than MaxBytes
	SeenAt  time.Time         // first event or poll that detected this change; used to measure latency
}

// A File follows one path and delivers the file's content whenever it differs from the last
// delivery. Create it with [NewFile]; it does nothing until [File.Run] is called. All methods are
// safe for concurrent use.
type File struct {
	name string // path as passed to NewFile
	path string // absolute but not cleaned, because the kernel must resolve "link/.."
	opts FileOptions

	// changes delivers states to the consumer. Only Run sends to it and closes it. Capacity 1,
	// because only the newest state matters: Run replaces a state that has not been received yet.
	changes chan Change
	// kicks asks Run for an immediate check. Kick sends, Run receives; it is never closed. Capacity
	// 1, because one check serves any number of requests.
	kicks chan struct{}

	started atomic.Bool
	again   atomic.Bool // set by Retry, cleared by the next delivery
	mode    atomic.Pointer[Mode]
}

// NewFile returns a File for path, which need not exist. A relative path is resolved against the
// current working directory at the time of the call.
func NewFile(path string, opts FileOptions) *File {
	f := &File{
		name:    path,
		path:    path,
		opts:    opts.withDefaults(),
		changes: make(chan Change, 1),
		kicks:   make(chan struct{}, 1),
	}
	if !filepath.IsAbs(path) {
		// If the working directory is unknown, the path stays relative, and Run delivers the error
		// from opening it until it exists.
		if dir, err := os.Getwd(); err == nil {
			f.path = dir + string(filepath.Separator) + path
		}
	}
	f.mode.Store(&Mode{Kind: ModePoll, Reason: "not started"})
	return f
}

// Changes returns the channel on which Run delivers states. Its capacity is 1: a newer state
// replaces one that has not been received yet, so a slow consumer receives the newest state and
// does not block Run. For that reason, a state may equal the last one that the consumer received.
// Run closes the channel when it returns.
func (f *File) Changes() <-chan Change { return f.changes }

// Kick requests an immediate check without a quiet period: the current content is considered
// settled, for example after an operator sends SIGHUP. It never blocks. Content equal to the last
// delivery is not delivered again, unless Retry was called first.
func (f *File) Kick() {
	select {
	case f.kicks <- struct{}{}:
	default:
	}
}

// Retry makes the next check deliver its state even if that state was already delivered. The next
// check happens at the next poll at the latest. Call Retry if a Change could not be applied for a
// temporary reason. It never blocks; each call causes at most one delivery.
func (f *File) Retry() { f.again.Store(true) }

// Mode returns how changes are currently detected.
func (f *File) Mode() Mode { return *f.mode.Load() }

// Run follows the file until ctx ends. It then releases every watch, closes the channel returned by
// Changes, and returns context.Cause(ctx). No error with the file or its watches makes it return
// earlier. It must be called only once; a second call returns an error immediately.
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
			r.fail() // an overflow or a closed source: events were or will be lost
		}
	}
}

// A cause is the reason for a check. It determines whether the content is considered settled.
type cause int

const (
	byPoll  cause = iota // a poll: the file may be being written
	byRetry              // a retry after a problem: the file may be being written
	byQuiet              // the burst of events has ended
	byKick               // the caller of Kick guarantees that the content is complete
)

// A result is the outcome of one check of the file.
type result struct {
	digest  [sha256.Size]byte
	missing bool
	problem string // error text; empty if there is no error
}

// A run holds the state of one call to Run. Only the goroutine of Run uses it.
type run struct {
	*File
	pathWatch

	burst  debounce
	seenAt time.Time // when a change that is not settled yet was first detected
	polled time.Time // time of the last check, whatever its cause

	delivered *result // last delivered state; nil if none yet

	// unconfirmed is the digest of content that may still be being written. The content is
	// considered settled if it is unchanged after Quiet, or at the latest when MaxWait has passed
	// since unconfirmedSince.
	unconfirmed      *[sha256.Size]byte
	unconfirmedSince time.Time

	attempt int       // number of retries for the current problem
	retry   time.Time // time of the next retry; zero if none is scheduled
}

// retryDelay returns the delay before retry n (counted from 0) of a file that is absent, empty or
// unreadable. ok is false if there are no more retries.
func retryDelay(n int) (d time.Duration, ok bool) {
	return 50 * time.Millisecond << n, n < 5
}

// next returns the time of the next scheduled check, and its cause.
func (r *run) next() (time.Time, cause) {
	if r.burst.pending() {
		// A retry or poll must not read during a write; the check at the end of the burst replaces
		// it.
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

// event handles a relevant file event.
func (r *run) event(ev fsnotify.Event) {
	now := time.Now()
	r.sign(now)
	r.burst.kick(now)
	if ev.Op&^(fsnotify.Write|fsnotify.Chmod) != 0 {
		// The path may now resolve to another file. Watch it immediately, so that writes to it
		// extend this burst.
		r.adjust()
	}
}

// fail discards an event source that lost events or was closed.
func (r *run) fail() {
	now := time.Now()
	r.sign(now)
	r.burst.kick(now)
	r.drop()
}

// adjust updates the watches and the mode. It reports whether any write before this call would have
// caused an event.
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
		r.opts.Logger.Info("file change events are unreliable for this path; polling instead",
			slog.String("path", r.name), slog.Duration("interval", r.opts.PollOnly), slog.String("reason", reason))
	case mode.Kind == ModeInotify && !first && before.Kind != ModeInotify:
		r.opts.Logger.Info("file change events are reliable again", slog.String("path", r.name))
	}
	return !fresh && mode.Kind == ModeInotify
}

// check reads the file and delivers its state if the state is settled and new.
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
		r.burst.kick(now) // the file is being written, even if no event has arrived yet
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
	// On a loaded machine, events arrive late. The modification time reveals a recent write,
	// provided that the clocks of the file system and the system agree.
	age := now.Sub(modified)
	young := 0 <= age && age < r.opts.Quiet
	quiet := why == byQuiet && observed && (starved || !young)
	if same || why == byKick || quiet || r.confirmed(now, v.digest) {
		r.deliver(v, Change{Data: data, Digest: v.digest})
		return
	}
	r.burst.kick(now)
}

// confirmed reports whether content with this digest is considered settled, because the previous
// check read the same content or MaxWait has passed. Otherwise it stores the digest for the next
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

// checkFailed handles a check that read no content. Usually a save is in progress, so the problem
// is delivered only after several retries.
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
		return // this check was caused by an event; the retry is still scheduled
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

// deliver sends a settled state. It replaces a state that has not been received yet.
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

// settle marks the current change as processed: no content is unconfirmed any longer.
func (r *run) settle() {
	r.unconfirmed = nil
	if !r.burst.pending() { // otherwise a Kick was handled during a burst that is still in progress
		r.seenAt = time.Time{}
	}
}

var (
	// errMissing means that the file is absent or empty; during a save, the two are equivalent.
	errMissing = errors.New("absent or empty")
	// errUnstable means that the file changed while it was being read.
	errUnstable = errors.New("changed while it was read")
)

// read returns the content of a regular file of at most limit bytes, and its modification time. It
// fails if the file's metadata changed during the read. It never blocks on a FIFO or device. The
// same problem always has the same error text, so that it is delivered only once.
func read(path string, limit int64) (data []byte, modified time.Time, err error) {
	data, modified, err = readStable(path, limit)
	switch {
	case err == nil, errors.Is(err, errUnstable):
		return data, modified, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, modified, errMissing
	}
	return nil, modified, fmt.Errorf("read %q: %w", path, printable.Unnamed(err)) // Unnamed omits the unescaped path
}

func readStable(path string, limit int64) (data []byte, modified time.Time, err error) {
	// Call Stat before opening, because merely opening some devices has side effects.
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
		return nil, modified, err // the file was replaced after Stat
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
