package filewatch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

var (
	// errMissing: the file is absent or has no bytes, which are equivalent during a
	// save.
	errMissing = errors.New("absent or empty")
	// errUnstable: the file changed while it was read.
	errUnstable = errors.New("changed while it was read")
)

// read returns the content of a regular file of at most limit bytes, and its
// modification time. The metadata was the same before and after reading. It never
// blocks on a FIFO or device. Equal problems have equal error texts, so that each is
// delivered once.
func read(path string, limit int64) (data []byte, modified time.Time, err error) {
	data, modified, err = readStable(path, limit)
	switch {
	case err == nil, errors.Is(err, errUnstable):
		return data, modified, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, modified, errMissing
	}
	return nil, modified, fmt.Errorf("read %q: %w", path, printable.Unnamed(err)) // whose path is raw
}

func readStable(path string, limit int64) (data []byte, modified time.Time, err error) {
	// Before opening: opening alone has effects on some devices.
	info, err := os.Stat(path)
	if err != nil {
		return nil, modified, err
	}
	if err := regular(info); err != nil {
		return nil, modified, err
	}
	file, err := open(path)
	if err != nil {
		return nil, modified, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return nil, modified, err
	}
	if err := regular(before); err != nil {
		return nil, modified, err // replaced since Stat
	}
	if before.Size() > limit {
		return nil, modified, tooLarge(limit)
	}
	data, err = io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, modified, err
	}
	after, err := file.Stat()
	if err != nil {
		return nil, modified, err
	}
	switch {
	case int64(len(data)) > limit:
		return nil, modified, tooLarge(limit)
	case before.Size() != after.Size() || !before.ModTime().Equal(after.ModTime()):
		return nil, modified, errUnstable
	case len(data) == 0:
		return nil, modified, fs.ErrNotExist
	}
	return data, after.ModTime(), nil
}

func regular(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	return nil
}

func tooLarge(limit int64) error { return fmt.Errorf("larger than %d bytes", limit) }
