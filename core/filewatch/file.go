package filewatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/mcptrack/mcptrack/core/internal/regularfile"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/printable"
)

// FileOptions configures a [File]. The zero value is usable.
type FileOptions struct {
	// PollOnly is the interval between looks at the file while events are unreliable; default 2 s.
	PollOnly time.Duration
	// MaxBytes is the maximum size of the file; default 1 MiB. A larger file is not read and is
	// reported as an error.
	MaxBytes int64
	// Logger receives a message when file events become unreliable or reliable again; nil discards
	// them.
	Logger *slog.Logger

	poll   time.Duration             // interval between looks while events are reliable; 0 means 10 s
	notify func() (*notifier, error) // creates the source of file events; nil means the operating system's
}

const (
	// quiet is how long content must remain unchanged before it is delivered.
	quiet = 100 * time.Millisecond
	// maxWait is the maximum time for which further changes may delay the delivery of content.
	maxWait = time.Second
	// absence is how long a file must be absent, empty or unreadable before that is delivered: it may
	// be in the middle of a save.
	absence = 1500 * time.Millisecond
)

func positive[T ~int | ~int64](v *T, fallback T) {
	if *v <= 0 {
		*v = fallback
	}
}

// A Change is one settled state of the file: exactly one of Data (its content), Missing and Err is
// set. The receiver owns Data.
type Change struct {
	Data    []byte    // content; nil if Missing or Err is set
	Missing bool      // absent or empty
	Err     error     // the file is unreadable, not a regular file, or larger than MaxBytes
	SeenAt  time.Time // first event or look that detected this change; used to measure latency
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
	// kicks asks Run to look now.
	kicks wake.Channel

	started atomic.Bool
	again   atomic.Bool // set by Retry, cleared by the next delivery
}

// NewFile returns a File for path, which need not exist. A relative path is resolved against the
// current working directory at the time of the call.
func NewFile(path string, opts FileOptions) *File {
	positive(&opts.PollOnly, 2*time.Second)
	positive(&opts.MaxBytes, 1<<20)
	positive(&opts.poll, 10*time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.notify == nil {
		opts.notify = newNotifier
	}
	f := &File{name: path, path: path, opts: opts, changes: make(chan Change, 1), kicks: wake.New()}
	if !filepath.IsAbs(path) {
		// If the working directory is unknown, the path stays relative, and Run delivers the error
		// from opening it until it exists.
		if dir, err := os.Getwd(); err == nil {
			f.path = dir + string(filepath.Separator) + path
		}
	}
	return f
}

// Changes returns the channel on which Run delivers states. Its capacity is 1: a newer state
// replaces one that has not been received yet, so a slow consumer receives the newest state and
// does not block Run. For that reason, a state may equal the last one that the consumer received.
// Run closes the channel when it returns.
func (f *File) Changes() <-chan Change { return f.changes }

// Kick requests an immediate look: the current state is considered settled, for example after an
// operator sends SIGHUP. It never blocks. A state equal to the last delivery is not delivered again,
// unless Retry was called first.
func (f *File) Kick() {
	f.kicks.Send()
}

// Retry makes the next look deliver its state even if that state was already delivered. Call Retry
// if a Change could not be applied for a temporary reason. It never blocks; each call causes at most
// one delivery.
func (f *File) Retry() { f.again.Store(true) }

// Run follows the file until ctx ends. It then releases every watch, closes the channel returned by
// Changes, and returns context.Cause(ctx). No error with the file or its watches makes it return
// earlier. It must be called only once; a second call returns an error immediately.
func (f *File) Run(ctx context.Context) error {
	if f.started.Swap(true) {
		return errRunTwice
	}
	defer close(f.changes)
	r := &run{File: f}
	defer func() { r.n.stop() }()
	r.look(false)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(r.due))
		events, failed := r.n.channels()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			r.look(false)
		case <-f.kicks:
			r.look(true)
		case ev, ok := <-events:
			if !ok {
				r.failed()
			} else if r.paths[pathKey(ev.Name)] {
				r.changed(ev.Op&^(fsnotify.Write|fsnotify.Chmod) != 0)
			}
		case <-failed:
			r.failed() // an overflow or a closed source: events were or will be lost
		}
	}
}

// A state is what one look at the file found.
type state struct {
	digest  [sha256.Size]byte // of the content; zero if there is none
	problem string            // why there is none
}

// A run holds the state of one call to Run. Only the goroutine of Run uses it.
type run struct {
	*File
	n      *notifier       // nil if it could not be created
	paths  map[string]bool // keys of the paths whose events matter; see watch
	reason string          // why events are unreliable; empty if they are reliable
	stale  bool            // the watches must be set anew before the next look

	looked time.Time // time of the last look
	due    time.Time // time of the next look
	seenAt time.Time // when a change that is not settled yet was first detected; zero if there is none

	delivered *state    // last delivered state; nil if none yet
	last      state     // found by the last look
	since     time.Time // time of the first look that found last
	content   time.Time // time of the first look that found content that is not settled; zero if there is none
}

// failed discards a source that lost events.
func (r *run) failed() {
	r.n.stop()
	r.n = nil
	r.changed(true)
}

// changed schedules a look after an event. stale means that the path may now lead elsewhere.
func (r *run) changed(stale bool) {
	r.stale = r.stale || stale
	if r.seenAt.IsZero() {
		r.seenAt = time.Now()
	}
	if next := r.looked.Add(quiet); next.Before(r.due) {
		r.due = next
	}
}

// look reads the file and delivers its state if the state is new and settled; kicked means that it is
// settled.
func (r *run) look(kicked bool) {
	r.looked = time.Now()
	anew := r.n == nil || r.stale || r.reason != ""
	if anew {
		r.watch()
	}
	data, err := read(r.path, r.opts.MaxBytes)
	now := state{}
	if err == nil {
		now.digest = sha256.Sum256(data)
	} else {
		now.problem = printable.Reason(err, 300)
	}
	if now != r.last || r.since.IsZero() {
		r.last, r.since = now, r.looked
	}
	same := r.delivered != nil && *r.delivered == now
	if same && !r.again.Load() {
		r.settled()
		return
	}
	if r.seenAt.IsZero() { // no event told of this change
		r.seenAt, r.stale = r.looked, !anew
	}
	wait := quiet
	if err != nil {
		wait, r.content = absence, time.Time{}
	} else if r.content.IsZero() {
		r.content = r.looked
	}
	if !same && !kicked && r.looked.Sub(r.since) < wait && (err != nil || r.looked.Sub(r.content) < maxWait) {
		r.due = r.looked.Add(quiet)
		return
	}
	c := Change{Data: data, SeenAt: r.seenAt}
	if errors.Is(err, errMissing) {
		c.Missing = true
	} else {
		c.Err = err
	}
	r.again.Store(false)
	r.delivered = &now
	r.settled()
	select {
	case <-r.changes: // it was not received
	default:
	}
	r.changes <- c // never blocks: this is the only sender
}

// settled schedules the next look, which comes earlier after an event.
func (r *run) settled() {
	r.seenAt, r.content = time.Time{}, time.Time{}
	r.due = r.looked.Add(r.opts.poll)
	if r.reason != "" {
		r.due = r.looked.Add(r.opts.PollOnly)
	}
}

// watch sets all watches anew: on the folders of the path, of the links that it leads to, and of what
// it resolves to. Each is watched before it is looked at, so that a later change causes an event.
func (r *run) watch() {
	r.n.stop()
	before := r.reason
	r.paths, r.stale, r.reason = make(map[string]bool), false, ""
	var err error
	if r.n, err = r.opts.notify(); err != nil {
		r.n, r.reason = nil, printable.Reason(err, 300)
	} else {
		at := r.path
		for range maxLinks {
			r.watchFolder(at, true)
			target, err := os.Readlink(at)
			if err != nil {
				break
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(at), target)
			}
			at = target
		}
		if real, err := filepath.EvalSymlinks(r.path); err == nil {
			r.watchFolder(real, true)
		}
	}
	logReason(r.opts.Logger, r.name, before, r.reason, r.opts.PollOnly)
}

// maxLinks is the maximum number of symbolic links that are followed, as in Linux.
const maxLinks = 40

// watchFolder watches the folder of a path, after those above it, which report that it appears or is
// replaced. needed means that looks at long intervals do not make up for a folder that may be passed
// but not watched, as /home often is.
func (r *run) watchFolder(path string, needed bool) {
	dir := filepath.Dir(path)
	if r.paths[pathKey(path)] || dir == path {
		return
	}
	r.paths[pathKey(path)] = true
	r.watchFolder(dir, false)
	switch err := r.n.add(dir); {
	case err == nil && needed && silentFS(dir) != "":
		r.reason = silent(dir)
	case err == nil, isMissing(err), !needed && errors.Is(err, fs.ErrPermission):
	default:
		r.reason = watchError(dir, err)
	}
}

// pathKey returns what a path has in common with other spellings of it. Some file systems report an
// entry in another case than the one used for the lookup.
func pathKey(path string) string { return strings.ToLower(filepath.Clean(path)) }

// errMissing means that the file is absent or empty; during a save, the two are equivalent.
var errMissing = errors.New("absent or empty")

// read returns the content of a regular file of at most limit bytes. It never blocks on a FIFO or
// device. The same problem always has the same error text, so that it is delivered only once.
func read(path string, limit int64) ([]byte, error) {
	data, _, err := regularfile.Read(path, limit)
	switch {
	case err == nil && len(data) == 0, isMissing(err):
		return nil, errMissing
	case err != nil:
		return nil, fmt.Errorf("read %q: %w", path, printable.Unnamed(err)) // Unnamed omits the unescaped path
	}
	return data, nil
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
