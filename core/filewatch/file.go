package filewatch

import (
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
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
// the current working directory, also if that changes later.
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
