package demo

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	tempPattern = "mcptrack-demo-*"
	lockName    = ".lock"
	// lockGrace is how long a directory without a lock is kept, because its demo may be about to
	// lock it.
	lockGrace = time.Minute
)

// A TempDir is the temporary directory of one demo. It is locked while the demo runs; a later demo
// removes unlocked directories, and thus cleans up after a crash.
type TempDir struct {
	Dir  string
	lock *os.File
}

// NewTempDir creates a directory in temp and removes the directories that killed demos left there.
// An empty temp means the system's temporary directory.
func NewTempDir(temp string) (*TempDir, error) {
	temp = cmp.Or(temp, os.TempDir())
	sweep(temp)
	dir, err := os.MkdirTemp(temp, tempPattern) // created with mode 0700
	if err != nil {
		return nil, fmt.Errorf("create the demo's directory: %w", err)
	}
	d := &TempDir{Dir: dir}
	if d.lock, err = lock(filepath.Join(dir, lockName)); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the demo's directory: %w", err), os.RemoveAll(dir))
	}
	return d, nil
}

// Remove removes the directory and everything in it.
func (d *TempDir) Remove() error {
	// Close the lock first, because some systems do not remove locked files.
	if err := errors.Join(d.lock.Close(), os.RemoveAll(d.Dir)); err != nil {
		return fmt.Errorf("remove the demo's directory: %w", err)
	}
	return nil
}

// sweep removes all directories in temp that belong to demos and are not locked. It ignores errors.
func sweep(temp string) {
	dirs, err := filepath.Glob(filepath.Join(temp, tempPattern))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		// Any user can write to temp, so only accept real directories owned by this user.
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || !own(info) {
			continue
		}
		name := filepath.Join(dir, lockName)
		if _, err := os.Lstat(name); err != nil && time.Since(info.ModTime()) < lockGrace {
			continue
		}
		if held, err := lock(name); err == nil {
			_ = (&TempDir{dir, held}).Remove()
		}
	}
}
