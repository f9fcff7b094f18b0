//go:build unix

package filewatch

import (
	"os"
	"syscall"
)

// open does not wait for the other end of a FIFO and does not make a terminal
// the controlling one, should the file have become either.
func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
}
