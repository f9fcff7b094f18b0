//go:build unix

package lock

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in place of the lock is refused; opening it would never end.
func TestPipeIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "the lock is not a file") {
		t.Error(err)
	}
	if err := Update(t.Context(), path, func(*Lock) error { return nil }); err == nil || !strings.Contains(err.Error(), "the lock is not a file") {
		t.Error(err)
	}
}
