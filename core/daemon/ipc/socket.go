package ipc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// SocketKey is the environment variable that names the socket.
const SocketKey = "MCPTRACK_SOCKET"

// home returns a name for the folders of a client that contain its mcptrack config, logins and events.
// Clients with other folders, such as those in a sandbox, have a daemon of their own, because a daemon
// uses the logins and the log of its own folders.
func home(lookup func(string) (string, bool)) string {
	folders := make([]string, 3)
	folders[0], _ = lookup("HOME")
	for i, of := range []struct{ name, standard string }{{"XDG_CONFIG_HOME", ".config"}, {"XDG_STATE_HOME", ".local/state"}} {
		dir, _ := lookup(of.name)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(folders[0], of.standard)
		}
		folders[1+i] = filepath.Clean(dir)
	}
	if runtime.GOOS == "windows" { // HOME is set in some shells only
		folders[0], _ = lookup("USERPROFILE")
		folders[1], _ = lookup("APPDATA")
		folders[2] = ""
	}
	sum := sha256.Sum256([]byte(strings.Join(folders, "\x00")))
	return hex.EncodeToString(sum[:4])
}

// ErrRunning is returned by Acquire if another daemon holds the lock.
var ErrRunning = errors.New("a mcptrack daemon is already running")

// ErrNoDaemon is returned by a client if no daemon listens on its socket.
var ErrNoDaemon = errors.New("no mcptrack daemon is running")

// A Lock is held by the daemon of a socket for as long as it runs. The system releases it when the
// process ends.
type Lock struct{ file *flock.Flock }

// Acquire acquires the lock of a socket. If another daemon holds it, Acquire waits until ctx ends, or
// returns ErrRunning if wait is false.
func Acquire(ctx context.Context, socket string, wait bool) (*Lock, error) {
	return acquire(ctx, lockFile(socket, "lock"), wait)
}

// HoldStarts prevents clients from starting a daemon until the lock is released: they wait. A daemon
// that replaces another one holds it, so that it is the one that follows.
func HoldStarts(ctx context.Context, socket string) (*Lock, error) {
	return acquire(ctx, lockFile(socket, "start"), true)
}

// acquire locks a file.
func acquire(ctx context.Context, path string, wait bool) (*Lock, error) {
	file := flock.New(path, flock.SetPermissions(0o600))
	var held bool
	var err error
	if wait {
		held, err = file.TryLockContext(ctx, 10*time.Millisecond)
	} else {
		held, err = file.TryLock()
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	case !held:
		return nil, ErrRunning
	}
	return &Lock{file}, nil
}

// Release releases the lock. The file stays, because another process may wait for it.
func (l *Lock) Release() { _ = l.file.Unlock() }
