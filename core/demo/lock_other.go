//go:build !unix

package demo

import (
	"errors"
	"io/fs"
	"os"
)

// lock creates a file and keeps it open. It replaces a file left behind by a demo that has ended.
// It fails if another demo keeps the file open, because Windows does not remove open files.
func lock(name string) (*os.File, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

// own always returns true: on this system, each user has a separate temporary directory.
func own(fs.FileInfo) bool { return true }
