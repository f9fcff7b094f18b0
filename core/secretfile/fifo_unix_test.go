//go:build unix

package secretfile

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Read rejects a FIFO without a writer instead of waiting for it, and rejects a device.
func TestReadRefusesFIFOsAndDevices(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{fifo, "/dev/zero"} {
		done := make(chan error, 1)
		go func() {
			_, err := Read(path)
			done <- err
		}()
		select {
		case err := <-done:
			if _, ok := errors.AsType[*RefusedError](err); !ok {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s blocks", path)
		}
	}
}
