package login

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// A Stamp identifies a version of the file with a server's logins: it changes when they do.
type Stamp struct{ info fs.FileInfo }

// Stamp returns the stamp of a target's logins.
func (s *Store) Stamp(t Target) Stamp {
	info, err := os.Stat(s.path(t.URL))
	if err != nil {
		return Stamp{}
	}
	return Stamp{info}
}

// Same reports whether the logins did not change between the two stamps.
func (a Stamp) Same(b Stamp) bool {
	if a.info == nil || b.info == nil {
		return a.info == nil && b.info == nil
	}
	return os.SameFile(a.info, b.info) && a.info.ModTime().Equal(b.info.ModTime()) && a.info.Size() == b.info.Size()
}

// lockPoll is how often an attempt is made to take a lock that another process holds.
const lockPoll = 10 * time.Millisecond

// lock takes the lock of a server's logins, across processes. Only its holder changes them or
// renews their tokens.
func (s *Store) lock(ctx context.Context, server string) (unlock func(), err error) {
	if s.opts.Kind != KindMemory {
		if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(s.opts.Dir); err != nil { // no folder, so no logins of other processes
		return func() {}, nil
	}
	l := flock.New(filepath.Join(s.opts.Dir, name(server)+".lock"), flock.SetPermissions(0o600))
	ok, err := l.TryLockContext(ctx, lockPoll)
	switch {
	case ctx.Err() != nil:
		_ = l.Close()
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("lock the logins: %w", err)
	case !ok:
		return nil, errors.New("the logins are locked")
	}
	return func() { _ = l.Close() }, nil
}
