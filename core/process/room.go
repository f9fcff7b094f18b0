package process

import "fmt"

// LimitError means that a limit of this process or of its container leaves no room for
// another server. Unwrap gives the system's error.
type LimitError struct {
	What  string // what there is too much of, such as "too many open files"
	Limit int    // the limit; 0: not known
	Err   error
}

func (e *LimitError) Error() string {
	if e.Limit > 0 {
		return fmt.Sprintf("%s (limit %d)", e.What, e.Limit)
	}
	return e.What
}

func (e *LimitError) Unwrap() error { return e.Err }

const (
	// spareFiles is how many descriptors stay free for what goes on beside the servers:
	// the log, the config, those who read.
	spareFiles = 12
	// spareTasks is how many tasks (threads, in the end) stay free: a Go process that may
	// not begin a thread ends.
	spareTasks = 12
)
