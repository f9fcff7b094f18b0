package filewatch

import (
	"fmt"

	"github.com/fsnotify/fsnotify"
)

// A notifier is a source of events about entries of directories. It is a struct
// of what a follower needs from fsnotify and nothing else, so that tests can hand
// in a source that fails on demand. The holder must call close once.
type notifier struct {
	// events and errors are sent and closed by the source. Both are unbuffered;
	// while nobody receives, the kernel queues (16,384 events by default on Linux)
	// and then reports an overflow as an error.
	events <-chan fsnotify.Event
	errors <-chan error

	// add starts watching a directory. For one that is watched already it binds
	// the path anew, which matters if another directory now has that name.
	add    func(dir string) error
	remove func(dir string) error
	close  func() error
}

func newNotifier() (*notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("start file events: %w", err)
	}
	return &notifier{events: w.Events, errors: w.Errors, add: w.Add, remove: w.Remove, close: w.Close}, nil
}
