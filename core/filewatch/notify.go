package filewatch

import (
	"fmt"

	"github.com/fsnotify/fsnotify"
)

// A notifier is a source of events about entries of directories. It is a struct
// of what a follower needs from fsnotify and nothing else, so that tests can hand
// in a source that fails on demand. The holder must call close once.
type notifier struct {
	// events is sent to and closed by the source. It is unbuffered: while nobody
	// receives, the kernel queues (16,384 events by default on Linux) and then
	// reports an overflow as an error.
	events <-chan fsnotify.Event
	// errors is closed by the source, too. It holds one error: another one that
	// comes while it waits says nothing new, as each means that events were lost.
	errors <-chan error

	// add starts watching a directory. For one that is watched already it binds
	// the path anew, which matters if another directory now has that name.
	add    func(dir string) error
	remove func(dir string) error
	close  func() error
}

// newNotifier starts a source. fsnotify sends an error while it holds the lock that
// its Add, Remove and Close want (v1.10.1, when the watch of a directory that was
// moved is gone before it hears of the move). So somebody else than their caller
// must receive errors.
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
