//go:build unix

package journal

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the lock or fails at once. The kernel gives it back when the
// process ends, however that happens.
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

// unlockFile gives the lock back now. To close the file is not enough: a child that
// is being started holds it for a moment longer, until it runs its program.
func unlockFile(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}
