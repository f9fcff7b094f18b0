package sqlitelog

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"

	"github.com/mcptrack/mcptrack/core/journal"
)

// lockFile acquires the lock, or fails immediately if another process holds it. Windows releases
// the lock when the process exits.
func lockFile(path string) (*os.File, error) {
	f, err := openPrivate(path)
	if err != nil {
		return nil, err
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, new(windows.Overlapped))
	if err != nil {
		_ = f.Close()
		if err == windows.ERROR_LOCK_VIOLATION {
			return nil, journal.ErrLocked
		}
		return nil, err
	}
	return f, nil
}

func unlockFile(f *os.File) error { return f.Close() }

func isLocked(path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	f, err := lockFile(path)
	if err == nil {
		_ = unlockFile(f)
	}
	return errors.Is(err, journal.ErrLocked)
}

// checkOwner accepts every directory, because access control lists determine access on Windows.
func checkOwner(string, fs.FileInfo) error { return nil }

// openPrivate opens a file in the data directory, or creates it.
func openPrivate(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// inode returns 0, which means unknown: Windows provides such a number only for open files.
func inode(fs.FileInfo) int64 { return 0 }
