package process

import "fmt"

// LimitError means that a limit of this process or its container leaves no room for another server.
// Unwrap returns the system's error.
type LimitError struct {
	What  string // such as "too many open files"
	Limit int    // 0: unknown
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
	// spareFiles is how many file descriptors are kept free for the log, the config and readers.
	spareFiles = 12
	// spareTasks is how many tasks (mostly threads) are kept free: a Go process that cannot create
	// a thread crashes.
	spareTasks = 12
)
