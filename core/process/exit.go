package process

import (
	"fmt"
	"os"
	"time"
)

// Exit is how a child ended.
type Exit struct {
	// Code is the exit status, -1 if a signal ended the child or the status is unknown.
	Code int
	// Signal is the name of the signal that ended the child, such as SIGTERM, or empty.
	Signal string
	// OutOfMemory means that the kernel probably killed the child because the control group's
	// memory was used up.
	OutOfMemory bool
	// Uptime is the time from start to death.
	Uptime time.Duration
}

// String is for people: "exit status 1 after 1.2s".
func (e Exit) String() string {
	up := e.Uptime.Round(time.Millisecond)
	if e.Uptime >= time.Minute {
		up = e.Uptime.Round(time.Second)
	}
	if e.OutOfMemory {
		return fmt.Sprintf("killed by the system after %s: out of memory", up)
	}
	if e.Signal != "" {
		return fmt.Sprintf("ended by %s after %s", e.Signal, up)
	}
	if e.Code < 0 {
		return fmt.Sprintf("ended for an unknown reason after %s", up)
	}
	return fmt.Sprintf("exit status %d after %s", e.Code, up)
}

// exitOf converts the state that cmd.Wait left; it is nil if the wait failed.
func exitOf(state *os.ProcessState, uptime time.Duration) Exit {
	if state == nil {
		return Exit{Code: -1, Uptime: uptime}
	}
	return Exit{Code: state.ExitCode(), Signal: signalName(state), Uptime: uptime}
}
