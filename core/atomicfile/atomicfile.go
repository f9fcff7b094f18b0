// Package atomicfile replaces files atomically: readers see either the old content or the new
// content, never a mixture, even after a crash.
//
// Why no library: google/renameio does not support Windows, and natefinch/atomic neither follows
// symbolic links nor preserves the mode of the replaced file.
package atomicfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Write replaces the content of the file at path with the concatenated pieces of data. When it
// returns, the new content and its file name are on disk, so that a power failure does not restore
// the old content. An existing file keeps its permissions; a new file gets perm, less the umask. If
// path is a symbolic link, Write replaces the file that it points to and keeps the link. The
// directory must exist. After an error the old file is unchanged, unless only the last step failed,
// which flushes the directory to disk.
func Write(path string, perm fs.FileMode, data ...[]byte) error {
	return named(path, write(path, perm, os.Rename, data))
}

func write(path string, perm fs.FileMode, move func(from, to string) error, data [][]byte) error {
	target := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		target = real
	}
	mode := fs.FileMode(0)
	if info, err := os.Stat(target); err == nil {
		mode = info.Mode().Perm()
	}
	return put(target, perm, mode, (*os.File).Sync, move, data)
}

// ErrChanged is the error of Swap for a file with another content.
var ErrChanged = errors.New("it changed in the meantime")

// Swap is like Write for a file that must exist and have the content old. Otherwise it returns
// [ErrChanged]. It compares immediately before the new content replaces the old one.
func Swap(path string, old, data []byte) error {
	compare := func(from, to string) error {
		if now, err := os.ReadFile(to); err != nil || !bytes.Equal(now, old) {
			return ErrChanged
		}
		return os.Rename(from, to)
	}
	return named(path, write(path, 0o600, compare, [][]byte{data}))
}

// temporary is the beginning of the names of temporary files.
const temporary = ".mcptrack-"

// Sweep removes what processes that were killed while they wrote have left in a directory: temporary
// files that were written before a time.
func Sweep(dir string, before time.Time) {
	entries, _ := os.ReadDir(dir) // what cannot be read cannot be removed
	for _, e := range entries {
		random, found := strings.CutPrefix(e.Name(), temporary)
		if !found || len(random) != len(rand.Text()) || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// Replace is like Write, but it always sets the permissions to perm, and it replaces a symbolic
// link instead of following it.
func Replace(path string, perm fs.FileMode, data ...[]byte) error {
	return named(path, replace(path, perm, perm, (*os.File).Sync, data))
}

// Create is like Replace, but returns [fs.ErrExist] if a file already exists at path. If several
// processes create the same file simultaneously, one succeeds, and the others find the complete
// file that it wrote.
func Create(path string, perm fs.FileMode, data ...[]byte) error {
	return named(path, put(path, perm, perm, (*os.File).Sync, link, data))
}

// link gives a file another name, unless that name already exists. On a file system without hard
// links, it first reserves the name with an empty file, which others may briefly see.
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

// replace writes the data to a new file that replaces path itself, even if path is a symbolic link;
// see put.
func replace(path string, perm, mode fs.FileMode, sync func(*os.File) error, data [][]byte) error {
	return put(path, perm, mode, sync, os.Rename, data)
}

// put writes the data to a new temporary file, which move then renames to path. The file is created
// with perm, less the umask; if mode is not 0, the file's mode is then set to exactly that. sync
// flushes a file or directory to disk.
func put(path string, perm, mode fs.FileMode, sync func(*os.File) error, move func(from, to string) error, data [][]byte) error {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), temporary+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails harmlessly after a rename
	if mode != 0 {
		_ = f.Chmod(mode) // not supported on every file system
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

// syncDir flushes a directory's entries to disk where that is possible. It is not possible on
// Windows, on some network file systems, or in a directory that is writable but not readable.
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

// named adds the path to err. It returns nil if err is nil.
func named(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", printable.Line(path, 256), printable.Unnamed(err))
}
