package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/internal/regularfile"
	"github.com/mcptrack/mcptrack/core/internal/writable"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	waitForOthers = 10 * time.Second     // how long Update waits for another process that changes the file
	waitBetween   = 5 * time.Millisecond // delay between two attempts to lock the file
)

// Read returns the lock in a file. The error is [fs.ErrNotExist] if there is no file, and wraps an
// [*FileError] if the file is damaged. A symbolic link is refused: it could let a review see another file
// than the one that is used.
func Read(path string) (*Lock, error) {
	l, _, err := read(path)
	return l, err
}

// CheckAccess returns an [*FileError] if another user owns the file or could change or replace it: that
// user would decide what is approved. The file does not need to exist.
func CheckAccess(path string) error {
	if e, unsafe := errors.AsType[*writable.Error](writable.ByOthers(path, "")); unsafe {
		return &FileError{Problem: "a lock determines what is approved, and " + e.Error(), Advice: e.Hint}
	}
	return nil
}

// read returns the lock in a file and its content.
func read(path string) (*Lock, []byte, error) {
	data, err := contentOf(path)
	var l *Lock
	if err == nil {
		l, err = Parse(data)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", printable.Line(path, 256), printable.Unnamed(err))
	}
	return l, data, nil
}

// contentOf returns the content of a regular file of at most [MaxFile] bytes.
func contentOf(path string) ([]byte, error) {
	if named, err := os.Lstat(path); err == nil && named.Mode()&fs.ModeSymlink != 0 {
		return nil, &FileError{Problem: "the lock is a symbolic link", Advice: "replace the link with the file itself"}
	}
	data, _, err := regularfile.Read(path, MaxFile)
	switch _, large := errors.AsType[*regularfile.SizeError](err); {
	case large:
		return nil, errTooLarge()
	case errors.Is(err, regularfile.ErrNotRegular):
		return nil, &FileError{Problem: "the lock is not a file", Advice: "move it away, and then run: mcptrack lock"}
	}
	return data, err
}

// Update reads a lock file, calls change with its lock, and replaces the file if the lock has changed.
// If there is no file, change gets a new lock. Meanwhile no other process can update the file. If
// change returns an error, the file stays as it was, and Update returns the error. ctx limits how long
// Update waits for other processes. Without a deadline, it waits for at most 10 s.
func Update(ctx context.Context, path string, change func(*Lock) error) (err error) {
	unlock, err := exclude(ctx, path)
	if err != nil {
		return fmt.Errorf("cannot lock %s against other processes: %w", printable.Line(path, 256), printable.Unnamed(err))
	}
	defer func() { err = errors.Join(err, unlock()) }()
	l, before, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		l, err = New(), nil
	}
	if err != nil {
		return err
	}
	if err := change(l); err != nil {
		return err
	}
	after, err := Marshal(l)
	if err != nil {
		return fmt.Errorf("%s would be invalid: %w", printable.Line(path, 256), err)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	return atomicfile.Write(path, 0o644, after)
}

// exclude locks a file against updates by other processes. The lock is on a file beside it that
// exists only meanwhile, so that it does not litter the folder. A lock on the folder itself would not
// work on Windows and NFS.
func exclude(ctx context.Context, path string) (unlock func() error, err error) {
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, waitForOthers, errors.New("another process has been changing it for 10 s"))
		defer cancel()
	}
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".writing")
	for {
		if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is in the way; remove it", printable.Line(name, 256))
		}
		l := flock.New(name, flock.SetPermissions(0o600))
		if _, err := l.TryLockContext(ctx, waitBetween); err != nil {
			_ = l.Close()
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return nil, err
		}
		if current(l, name) {
			return func() error { return release(l, name) }, nil
		}
		_ = l.Close() // its last holder removed it
	}
}

// current reports whether a locked file is still the one with this name.
func current(l *flock.Flock, name string) bool {
	named, err := os.Lstat(name)
	locked, err2 := l.Stat()
	return err == nil && err2 == nil && os.SameFile(named, locked)
}

// release removes a locked file and unlocks it. Windows cannot remove an open file. There it is removed
// last, which fails harmlessly if another process has opened it in the meantime.
func release(l *flock.Flock, name string) error {
	if runtime.GOOS == "windows" {
		err := l.Close()
		_ = os.Remove(name)
		return err
	}
	return errors.Join(os.Remove(name), l.Close())
}
