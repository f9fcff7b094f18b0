//go:build unix

package process

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// spareFiles is the number of file descriptors that must stay available for the log, the config and
// connections of readers.
const spareFiles = 12

// RoomForFiles returns a [LimitError] if too few file descriptors are available. Call it after
// opening the descriptors for another server, and close them if it returns an error.
func RoomForFiles() error {
	var spare []int
	defer func() {
		for _, fd := range spare {
			_ = unix.Close(fd)
		}
	}()
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for ; err == nil; fd, err = unix.FcntlInt(uintptr(spare[0]), unix.F_DUPFD_CLOEXEC, 0) {
		if spare = append(spare, fd); len(spare) == spareFiles {
			return nil
		}
	}
	return Explain(err)
}

// Explain converts a system error that reports an exhausted limit into a [LimitError], and returns
// all other errors unchanged.
func Explain(err error) error {
	if _, known := errors.AsType[*LimitError](err); known {
		return err
	}
	switch {
	case errors.Is(err, syscall.EMFILE):
		return &LimitError{What: "too many open files", Limit: softLimit(unix.RLIMIT_NOFILE), Err: err}
	case errors.Is(err, syscall.ENFILE):
		return &LimitError{What: "too many open files on this machine", Err: err}
	case errors.Is(err, syscall.ENOMEM):
		return &LimitError{What: "not enough memory", Err: err}
	}
	return err
}

// softLimit returns the soft limit for a resource in this process, or 0 if there is none.
func softLimit(resource int) int {
	var l unix.Rlimit
	if unix.Getrlimit(resource, &l) != nil || l.Cur > 1<<31 {
		return 0
	}
	return int(l.Cur) // Cur is an int64 on some systems
}
