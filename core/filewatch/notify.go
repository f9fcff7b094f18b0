package filewatch

import (
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A notifier is a source of events about directory entries: the part of fsnotify that
// this package uses, so that tests can inject failures. Its owner must call close
// once.
type notifier struct {
	// events is sent to and closed by the source. It is unbuffered: without a receiver
	// the kernel queues events (16,384 by default on Linux) and then reports an
	// overflow as an error.
	events <-chan fsnotify.Event
	// the source also closes errors. Its capacity is one: further errors are
	// dropped, as each of them only means that events were lost.
	errors <-chan error

	// add starts watching a directory. If it is already watched, the path is resolved
	// again, in case another directory got the name.
	add    func(dir string) error
	remove func(dir string) error
	close  func() error
}

// newNotifier starts a source. A goroutine receives errors, because fsnotify v1.10.1
// sends them while holding the lock that Add, Remove and Close need (when the watch
// of a moved directory is removed before the event of the move).
func newNotifier() (*notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("start file events: %w", err)
	}
	errs := make(chan error, 1)
	over := make(chan struct{}) // closed when errs is
	go func() {                 // ends by close, which waits for it
		defer close(over)
		defer close(errs)
		for err := range w.Errors {
			select {
			case errs <- err:
			default:
			}
		}
	}()
	end := func() error {
		err := w.Close()
		<-over
		return err
	}
	return &notifier{events: w.Events, errors: errs, add: w.Add, remove: w.Remove, close: end}, nil
}

// The kinds of [Mode].
const (
	// ModeInotify: events of the operating system, with slow polls as a fallback.
	// (Inotify is the Linux API; elsewhere it means kqueue and others.)
	ModeInotify = "inotify"
	// ModePoll: events are unreliable. They are still used, but a change is certain to
	// be found only by the next poll.
	ModePoll = "poll"
)

// A Mode is how changes are found.
type Mode struct {
	Kind   string // ModeInotify or ModePoll
	Reason string // why ModePoll; empty otherwise
}

// String returns the kind, followed by the reason if there is one.
func (m Mode) String() string {
	if m.Reason == "" {
		return m.Kind
	}
	return m.Kind + ": " + m.Reason
}

// A debounce decides when a burst of events is over, so that one report stands for all of
// it. It has no timer: its owner waits until due.
type debounce struct {
	quiet time.Duration // a burst is over when no event has come for this long
	most  time.Duration // or when it has lasted this long: an endless writer cannot starve the reader

	first, last time.Time // events of the current burst; zero: there is none
}

// kick records an event.
func (d *debounce) kick(now time.Time) {
	if d.first.IsZero() {
		d.first = now
	}
	d.last = now
}

// pending reports whether a burst is in progress.
func (d *debounce) pending() bool { return !d.first.IsZero() }

// due is when the burst will be over if nothing else happens. It is meaningless
// unless pending.
func (d *debounce) due() time.Time {
	quiet, most := d.last.Add(d.quiet), d.first.Add(d.most)
	if quiet.Before(most) {
		return quiet
	}
	return most
}

// starved reports whether the burst is due because it lasted the maximum and
// not because it is over.
func (d *debounce) starved() bool { return d.first.Add(d.most).Before(d.last.Add(d.quiet)) }

// reset ends the burst.
func (d *debounce) reset() { d.first, d.last = time.Time{}, time.Time{} }
