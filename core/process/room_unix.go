//go:build unix

package process

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// spareFiles is how many file descriptors are kept free for the log, the config and readers.
const spareFiles = 12

// RoomForFiles returns a [LimitError] unless some file descriptors are free. Call it after opening
// descriptors for another server, and close them if there is no room.
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

// Explain turns a system error into a [LimitError] if it means that a limit was reached, and
// returns other errors unchanged.
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

// explainFork is Explain for the error of starting a process.
func explainFork(err error) error {
	if errors.Is(err, syscall.EAGAIN) {
		return &LimitError{What: "too many processes", Limit: taskLimit(), Err: err}
	}
	return Explain(err)
}

// softLimit returns a limit of this process; 0: none.
func softLimit(resource int) int {
	var l unix.Rlimit
	if unix.Getrlimit(resource, &l) != nil || l.Cur > 1<<31 {
		return 0
	}
	return int(l.Cur) // int64 on some systems
}
