package filewatch

import (
	"crypto/sha256"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// FileOptions tune a [File]. The zero value is usable; zero fields mean the
// default named beside them.
type FileOptions struct {
	// Quiet is how long the file must be left alone before it is read; 100 ms.
	// Shorter reads many editors' saves half written.
	Quiet time.Duration
	// MaxWait bounds how long events may keep putting the read off; 1 s.
	MaxWait time.Duration
	// Poll is the interval of looks that no event asked for, while events work; 10 s.
	Poll time.Duration
	// PollOnly is the same interval while events cannot be relied upon; 2 s.
	PollOnly time.Duration
	// MaxBytes is the largest content that is read; 1 MiB. A larger file is an
	// error and is never held in memory.
	MaxBytes int64
	// Baseline is the SHA-256 of the content that the consumer has loaded
	// already. It counts as delivered: the same content at the start is silent,
	// and a change made between load and watch is not lost. With the zero value
	// Run delivers what it finds first.
	Baseline [sha256.Size]byte
	// Logger gets one line when events stop or start to work; nil means none.
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
	Missing bool              // absent or empty, and not only for a moment
	Err     error             // unreadable, not a regular file, or larger than MaxBytes
	SeenAt  time.Time         // the first sign of this change: start of the reload's latency
}

// A File follows one path and delivers the content behind it whenever that is
// different from what it delivered last. Make it with [NewFile]; it does nothing
// until [File.Run]. All methods may be called from any goroutine.
type File struct {
	name string // as given
	path string // absolute, not cleaned: "link/.." is for the kernel to resolve
	opts FileOptions

	// changes: sent and closed by Run alone. Capacity 1, because only the newest
	// state matters: Run replaces one that nobody has taken yet.
	changes chan Change
	// kicks: sent by Kick, received by Run, never closed. Capacity 1, because two
	// requests to look now are answered by one look.
	kicks chan struct{}

	started atomic.Bool
	again   atomic.Bool // set by Retry, taken by the next delivery
	mode    atomic.Pointer[Mode]
}

// NewFile returns a File for path, which need not exist. A relative path is bound
// to the working directory of this moment.
func NewFile(path string, opts FileOptions) *File {
	f := &File{
		name:    path,
		path:    path,
		opts:    opts.withDefaults(),
		changes: make(chan Change, 1),
		kicks:   make(chan struct{}, 1),
	}
	if !filepath.IsAbs(path) {
		// Without a working directory the path stays relative: Run then delivers
		// the error of opening it, and finds it again if it ever can.
		if dir, err := os.Getwd(); err == nil {
			f.path = dir + string(filepath.Separator) + path
		}
	}
	f.mode.Store(&Mode{Kind: ModePoll, Reason: "not started"})
	return f
}

// Changes returns the channel of deliveries. It holds one: a newer state replaces
// one not yet received, so a slow consumer always gets the newest and holds up
// nobody. Because of that a consumer may see the content that it has already.
// Run closes the channel when it returns.
func (f *File) Changes() <-chan Change { return f.changes }

// Kick asks for a look now, without waiting for quiet: what is found counts as
// settled (an operator's SIGHUP says so). It never blocks, and content that was
// delivered already stays silent. To have it again, call Retry first.
func (f *File) Kick() {
	select {
	case f.kicks <- struct{}{}:
	default:
	}
}

// Retry asks that the next look, at the latest the next poll, deliver what it
// finds even if that was delivered before. A consumer calls it when it could not
// apply a Change for a reason that may pass. It never blocks; one call is good
// for one delivery.
func (f *File) Retry() { f.again.Store(true) }

// Mode says how changes are found at present.
func (f *File) Mode() Mode { return *f.mode.Load() }
