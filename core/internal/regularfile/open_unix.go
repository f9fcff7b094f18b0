//go:build unix

package regularfile

import (
	"os"
	"syscall"
)

// open opens a file for reading. If the path has become a FIFO, open does not wait for a writer; if
// it has become a terminal, open does not make it the controlling terminal.
func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
}
