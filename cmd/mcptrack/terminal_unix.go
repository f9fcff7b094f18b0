//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

const terminalPath = "/dev/tty"

// foreground reports whether this process may read the terminal: reading stops a background process.
func foreground(tty *os.File) bool {
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp()
}

// flush discards the input that nothing has read yet.
func flush(tty *os.File) { _ = discardInput(int(tty.Fd())) }
