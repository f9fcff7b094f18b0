// Package atomicfile replaces a file as a whole: readers, and a run after a crash, see
// the old content or the new one, never a part.
//
// Why no library: google/renameio does not support Windows, and natefinch/atomic
// neither follows symbolic links nor keeps the mode of the file it replaces.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Write replaces the content of the file at path by the pieces of data, one after the other.
// They are on disk when it returns, under the name of the file: a power cut does not bring
// the old content back. A file that is replaced keeps its permissions; a new file has those
// of perm that the umask allows. If path is a symbolic link, the link stays and the file that
// it leads to is replaced. The directory must exist. After an error the old file is
// unchanged, unless only the last step failed, which writes the directory to disk.
func Write(path string, perm fs.FileMode, data ...[]byte) error {
	target := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		target = real
	}
	if info, err := os.Stat(target); err == nil {
		return named(path, replace(target, perm, info.Mode().Perm(), (*os.File).Sync, data))
	}
	return named(path, replace(target, perm, 0, (*os.File).Sync, data))
}

// Replace is like Write, but the file has the permissions perm afterwards, whatever was at
// path before, and a symbolic link is replaced rather than followed.
func Replace(path string, perm fs.FileMode, data ...[]byte) error {
	return named(path, replace(path, perm, perm, (*os.File).Sync, data))
}

// Create is like Replace, but the error is [fs.ErrExist] if there is a file at path: of several
// processes that create it simultaneously one succeeds, and the others find what that one wrote.
func Create(path string, perm fs.FileMode, data ...[]byte) error {
	return named(path, put(path, perm, perm, (*os.File).Sync, link, data))
}

// link gives a file another name, unless that exists. On a file system without hard links the name
// is taken first, so that others may find the file empty for a moment.
func link(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	f, taken := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if taken != nil {
		return taken
	}
	return errors.Join(f.Close(), os.Rename(from, to))
}

// replace puts the data in a new file that replaces path itself, also if that is a link; see put.
func replace(path string, perm, mode fs.FileMode, sync func(*os.File) error, data [][]byte) error {
	return put(path, perm, mode, sync, os.Rename, data)
}

// put writes the data to a new file, to which move then gives its name. The file is created with
// perm, less the umask; a mode other than 0 is then set as it is. sync writes a file or a
// directory to disk.
func put(path string, perm, mode fs.FileMode, sync func(*os.File) error, move func(from, to string) error, data [][]byte) error {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".mcptrack-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails after a rename
	if mode != 0 {
		_ = f.Chmod(mode) // not supported everywhere
	}
	for _, piece := range data {
		if err == nil {
			_, err = f.Write(piece)
		}
	}
	if err == nil {
		err = sync(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := move(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path), sync)
}

// syncDir writes the names in a directory to disk, where that is possible: Windows has
// nothing of the kind, some file systems of networks refuse it, and a directory may be one
// that can be written but not read.
func syncDir(dir string, sync func(*os.File) error) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	err = sync(d)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// named returns err with the path in front; nil stays nil.
func named(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", printable.Line(path, 256), printable.Unnamed(err))
}
