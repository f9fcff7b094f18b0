//go:build unix

package draft

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A FIFO without a reader is refused immediately.
func TestWriteRefusesFIFOs(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skip(err)
	}
	for _, replace := range []bool{false, true} {
		done := make(chan error, 1)
		go func() { done <- Write(fifo, replace, []byte("text")) }()
		select {
		case err := <-done:
			if err == nil {
				t.Error("a FIFO was written to")
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it blocks")
		}
	}
}
