// Package regularfile reads files that others may have put in place of the ones that are meant: it refuses
// what is not a regular file or is too large, and never blocks on a FIFO or device.
package regularfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNotRegular reports a directory, FIFO, device or socket.
var ErrNotRegular = errors.New("not a regular file")

// A SizeError reports a file of more than Limit bytes.
type SizeError struct{ Limit int64 }

func (e *SizeError) Error() string { return fmt.Sprintf("larger than %d bytes", e.Limit) }

// Open opens a file of at most limit bytes. The file may grow afterwards.
func Open(path string, limit int64) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path) // first, because merely opening some devices has side effects
	if err == nil {
		err = check(info, limit)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = check(info, limit) // it may have been replaced after Stat
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Read returns the content of a file of at most limit bytes, and what was known of it when it was opened.
func Read(path string, limit int64) ([]byte, fs.FileInfo, error) {
	f, info, err := Open(path, limit)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &SizeError{limit}
	}
	return data, info, err
}

func check(info fs.FileInfo, limit int64) error {
	switch {
	case !info.Mode().IsRegular():
		return ErrNotRegular
	case info.Size() > limit:
		return &SizeError{limit}
	}
	return nil
}
