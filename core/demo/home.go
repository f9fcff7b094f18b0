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
	homePattern = "mcptrack-demo-*"
	lockName    = ".lock"
	// newborn is for how long a folder without a lock may be that of a demo which
	// has not come to lock it.
	newborn = time.Minute
)

// home is the folder of one demo, locked for as long as it is in use.
type home struct {
	dir  string
	lock *os.File
}

// openHome makes a folder, and removes those of demos that were killed.
func openHome(temp string) (*home, error) {
	temp = cmp.Or(temp, os.TempDir())
	sweep(temp)
	dir, err := os.MkdirTemp(temp, homePattern) // mode 0700
	if err != nil {
		return nil, fmt.Errorf("make the folder of the demo: %w", err)
	}
	h := &home{dir: dir}
	if h.lock, err = lock(filepath.Join(dir, lockName)); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the folder of the demo: %w", err), os.RemoveAll(dir))
	}
	return h, nil
}

func (h *home) remove() error {
	// Closed first: a system that locks files keeps them from being removed.
	if err := errors.Join(h.lock.Close(), os.RemoveAll(h.dir)); err != nil {
		return fmt.Errorf("remove the folder of the demo: %w", err)
	}
	return nil
}

// sweep removes folders that nobody has locked. What cannot be removed is somebody
// else's affair.
func sweep(temp string) {
	dirs, err := filepath.Glob(filepath.Join(temp, homePattern))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		// The folder for temporary files is everybody's: only a real folder of our own.
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || !own(info) {
			continue
		}
		name := filepath.Join(dir, lockName)
		if _, err := os.Lstat(name); err != nil && time.Since(info.ModTime()) < newborn {
			continue
		}
		if held, err := lock(name); err == nil {
			_ = (&home{dir, held}).remove()
		}
	}
}
