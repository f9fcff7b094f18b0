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

// lockFile acquires the lock, or fails immediately if another process holds it. The kernel releases
// the lock when the process exits.
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

// unlockFile releases the lock explicitly. Closing the file is not enough, because a child process
// that is just being started keeps the file open until it executes its program.
func unlockFile(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}

func isLocked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return err == syscall.EWOULDBLOCK
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing releases the lock too, unless a child process is just being started
	return false
}

// checkOwner returns an error unless the current user owns the file or directory and no other user
// may write to it. Otherwise another user could replace the log, or make mcptrack write to a file
// of theirs.
func checkOwner(path string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user; use a data directory of your own", path)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("other users may write to %s (mode %04o); run chmod 700", path, mode)
	}
	return nil
}

// openPrivate opens a file in the data directory, or creates it. It does not follow symbolic links.
// An existing file must be a regular file with only one hard link.
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
			err = &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file, or it has several hard links")}
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// inode returns the inode number of a file, or 0 if it is unknown.
func inode(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Ino)
	}
	return 0
}
