//go:build unix

package ipc

import (
	"errors"
	"os/exec"
	"syscall"
)

// detach lets a command outlive this process and its terminal.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func rootFolder(func(string) (string, bool)) string { return "/" }

func keptBySystem() []string { return nil }

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
