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

	"github.com/mcptrack/mcptrack/core/printable"
)

// Write puts the pieces of data, one after the other, in the place of the file. They
// are on disk when it returns. A file that is replaced keeps its permissions; a new one
// has those of perm that the umask allows. A symbolic link stays: the file that it leads
// to is replaced. The directory must exist. After an error the old file is unchanged.
func Write(path string, perm fs.FileMode, data ...[]byte) error {
	target := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		target = real
	}
	if err := replace(target, perm, data); err != nil {
		return fmt.Errorf("%s: %w", printable.Line(path, 256), reason(err))
	}
	return nil
}

func replace(path string, perm fs.FileMode, data [][]byte) error {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".mcptrack-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails after the rename
	if info, err := os.Stat(path); err == nil {
		_ = f.Chmod(info.Mode().Perm()) // not supported everywhere
	}
	for _, piece := range data {
		if err == nil {
			_, err = f.Write(piece)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// reason is an error without the name of the temporary file.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
