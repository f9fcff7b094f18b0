//go:build unix

package sqlitelog

import (
	"errors"
	"os"
	"syscall"

	"github.com/mcptrack/mcptrack/core/journal"
)

// lockFile takes the lock or fails immediately. The kernel releases it however the process ends.
func lockFile(path string) (*os.File, error) {
	f, err := openPrivate(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if err == syscall.EWOULDBLOCK {
			return nil, journal.ErrLocked
		}
		return nil, err
	}
	return f, nil
}

// unlockFile releases the lock. Closing the file is not enough: a child that is being started
// has it open until it executes its program.
func unlockFile(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// isLocked reports whether a process has the lock.
func isLocked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return err == syscall.EWOULDBLOCK
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing is enough, unless a child is being started
	return false
}
