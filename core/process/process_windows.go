package process

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
)

const (
	terminate = syscall.SIGTERM
	kill      = syscall.SIGKILL
)

// sysProcAttr puts the child in a new process group, so that a Ctrl-C meant for this process does
// not reach the child first.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// group contains only the direct child: Windows has no process groups that can be killed.
type group struct {
	child *os.Process

	mu     sync.Mutex
	reaped bool
}

func (g *group) adopt(child *os.Process) { g.child = child }

// reap waits for the child to exit. The error from Wait is ignored because cmd.ProcessState
// describes the exit better.
func (g *group) reap(cmd *exec.Cmd) {
	_ = cmd.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reaped = true
}

// signal kills the child: Windows has no signal that asks a process to exit.
func (g *group) signal(syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		_ = g.child.Kill()
	}
}

func (g *group) alive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.reaped
}

func signalName(*os.ProcessState) string { return "" }

// RoomForFiles always returns nil: Windows has no such limit.
func RoomForFiles() error { return nil }

// Explain returns the error unchanged, because limits are not recognised on Windows.
func Explain(err error) error { return err }

func explainFork(err error) error { return err }
