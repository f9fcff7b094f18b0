//go:build unix

package journal

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock or fails at once. The kernel releases it however the process ends.
func lockFile(path string) (*os.File, error) {
	f, err := openPrivate(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if err == syscall.EWOULDBLOCK {
			return nil, ErrLocked
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
