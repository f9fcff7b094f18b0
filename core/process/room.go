package process

import "fmt"

// LimitError means that a limit of this process or its container leaves no room for another
// server. Unwrap gives the system's error.
type LimitError struct {
	What  string // what the limit is about, such as "too many open files"
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
	// spareFiles is how many file descriptors are kept free for everything but the servers: the
	// log, the config, readers.
	spareFiles = 12
	// spareTasks is how many tasks (threads, mostly) are kept free: a Go process that cannot
	// create a thread crashes.
	spareTasks = 12
)
