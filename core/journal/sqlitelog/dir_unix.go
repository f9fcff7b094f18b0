//go:build unix

package sqlitelog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/mcptrack/mcptrack/core/journal"
)

// lockFile takes the lock or fails immediately. The kernel releases it when the process ends.
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

// unlockFile releases the lock. Closing the file is not enough: a child that is being started keeps
// it open until it executes its program.
func unlockFile(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

// isLocked reports whether a process holds the lock.
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

// checkOwner returns an error unless this user owns the file or directory and nobody else may write
// to it. Others could replace the log, or make mcptrack write to their file.
func checkOwner(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user; use a data directory of your own", path)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("others may write to %s (mode %04o); run chmod 700", path, mode)
	}
	return nil
}

// openPrivate opens a file of the data directory, or creates it. It follows no link; an existing
// file must be a regular one without other hard links.
func openPrivate(path string) (*os.File, error) {
	const flags = os.O_RDWR | syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC
	f, err := os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if f, err = os.OpenFile(path, flags, 0); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); !info.Mode().IsRegular() || ok && st.Nlink != 1 {
			err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file, or a file with several hard links")}
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// inode returns the number that identifies the file within its file system; 0 if unknown.
func inode(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Ino)
	}
	return 0
}
