package filewatch

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A notifier is a source of file events for the entries of directories. It exposes the part of
// fsnotify that this package uses, so that tests can inject failures. Its owner must call close
// exactly once.
type notifier struct {
	// events delivers file events. The source sends and closes it. It is unbuffered: while nothing
	// is received, the kernel queues events (16,384 by default on Linux) and then reports an
	// overflow as an error.
	events <-chan fsnotify.Event
	// errors delivers errors of the source, which also closes it. Its capacity is 1: further errors
	// are dropped, because every error only means that events were lost.
	errors <-chan error

	// add starts to watch a directory. If the directory is already watched, its path is resolved
	// again, because another directory may have been moved there.
	add    func(dir string) error
	remove func(dir string) error
	close  func() error
}

// newNotifier starts an event source. A separate goroutine receives its errors, because fsnotify
// v1.10.1 sends them while it holds the lock that Add, Remove and Close need (when the watch on a
// moved directory is removed before the move event arrives).
func newNotifier() (*notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("start file events: %w", err)
	}
	errs := make(chan error, 1)
	over := make(chan struct{}) // closed when errs is closed
	go func() {                 // stopped by close, which waits for it
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

// channels returns the channels of a source, or nil if there is none.
func (n *notifier) channels() (<-chan fsnotify.Event, <-chan error) {
	if n == nil {
		return nil, nil
	}
	return n.events, n.errors
}

// stop closes the source if there is one. No change is lost: the caller looks again.
func (n *notifier) stop() {
	if n != nil {
		_ = n.close()
	}
}

// logReason logs that events have become unreliable or reliable again. A reason is empty if they are
// reliable.
func logReason(log *slog.Logger, path, before, now string, interval time.Duration) {
	switch {
	case before == "" && now != "":
		log.Info("file change events are unreliable for this path; polling instead",
			slog.String("path", path), slog.Duration("interval", interval), slog.String("reason", now))
	case before != "" && now == "":
		log.Info("file change events are reliable again", slog.String("path", path))
	}
}

func watchError(dir string, err error) string { return fmt.Sprintf("watch %q: %v", dir, err) }

// silent returns the reason for a folder of which [silentFS] says that events are unreliable.
func silent(dir string) string {
	return fmt.Sprintf("%q is on a file system without reliable events (%s)", dir, silentFS(dir))
}

// A debounce determines when a burst of events has ended, so that the burst is reported only once.
// It has no timer: the caller waits until the time that due returns.
type debounce struct {
	quiet time.Duration // a burst ends when no event has occurred for this long
	most  time.Duration // maximum duration of a burst, so that continuous writes cannot delay the read forever

	first, last time.Time // first and last event of the current burst; zero if none
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

// due returns when the burst will end if no further event occurs. Call it only while a burst is
// pending.
func (d *debounce) due() time.Time {
	quiet, most := d.last.Add(d.quiet), d.first.Add(d.most)
	if quiet.Before(most) {
		return quiet
	}
	return most
}

// reset ends the burst.
func (d *debounce) reset() { d.first, d.last = time.Time{}, time.Time{} }
