package journal

import (
	"os"

	"golang.org/x/sys/windows"
)

// lockFile takes the lock or fails at once. The system releases it however the process ends.
func lockFile(path string) (*os.File, error) {
	f, err := openPrivate(path)
	if err != nil {
		return nil, err
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if err != nil {
		_ = f.Close()
		if err == windows.ERROR_LOCK_VIOLATION {
			return nil, ErrLocked
		}
		return nil, err
	}
	return f, nil
}

// unlockFile releases the lock.
func unlockFile(f *os.File) error { return f.Close() }
