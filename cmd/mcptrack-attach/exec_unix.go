//go:build unix

package main

import (
	"os"
	"syscall"
)

// replaceBy replaces this program by another one. It returns an exit code if that fails.
func replaceBy(program string, args []string) int {
	err := syscall.Exec(program, append([]string{program}, args...), os.Environ())
	return fail("cannot run "+program+": "+err.Error(), "", exitFailed)
}
