package filewatch

import (
	"fmt"

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
	// errors is closed by the source, too. Its capacity is one: further errors are
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
