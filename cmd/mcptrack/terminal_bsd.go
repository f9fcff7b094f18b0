//go:build unix && !linux

package main

import "golang.org/x/sys/unix"

func discardInput(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, unix.TCIFLUSH) }
