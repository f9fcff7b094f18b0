package filewatch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

var (
	// errMissing: the file is absent or has no bytes, which during a save is the
	// same thing.
	errMissing = errors.New("absent or empty")
	// errUnstable: the file changed while it was read.
	errUnstable = errors.New("changed while it was read")
)

// read returns the content of a regular file of at most limit bytes, read through
// one descriptor between two equal states of its metadata. It never blocks on a
// FIFO or device. Error texts are the same for the same defect, so that a defect
// is delivered once. modified is the file's own word for its last write.
func read(path string, limit int64) (data []byte, modified time.Time, err error) {
	data, modified, err = readStable(path, limit)
	switch {
	case err == nil, errors.Is(err, errUnstable):
		return data, modified, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, modified, errMissing
	}
	// The path is quoted once by us; the one inside comes raw from the file system.
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return nil, modified, fmt.Errorf("read %q: %w", path, err)
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
		return nil, modified, err // swapped since
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
