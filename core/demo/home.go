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

// A Home is a folder of one demo, locked for as long as it is in use. Whatever a
// demo keeps in files is in one, so that nobody takes it away and it does not stay.
type Home struct {
	Dir  string
	lock *os.File
}

// OpenHome makes a folder in temp ("": the system's), and removes those of demos
// that were killed.
func OpenHome(temp string) (*Home, error) {
	temp = cmp.Or(temp, os.TempDir())
	sweep(temp)
	dir, err := os.MkdirTemp(temp, homePattern) // mode 0700
	if err != nil {
		return nil, fmt.Errorf("make the folder of the demo: %w", err)
	}
	h := &Home{Dir: dir}
	if h.lock, err = lock(filepath.Join(dir, lockName)); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the folder of the demo: %w", err), os.RemoveAll(dir))
	}
	return h, nil
}

// Remove removes the folder with all that is in it.
func (h *Home) Remove() error {
	// Closed first: a system that locks files keeps them from being removed.
	if err := errors.Join(h.lock.Close(), os.RemoveAll(h.Dir)); err != nil {
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
			_ = (&Home{dir, held}).Remove()
		}
	}
}
