//go:build unix

package process

import (
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	terminate = syscall.SIGTERM
	kill      = syscall.SIGKILL
)

// sysProcAttr makes the child the leader of a new process group. Pdeathsig is not set: it fires
// when the thread that created the child exits, not the process (golang/go #27505).
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// group is the child's process group. Its id is the child's pid, which the kernel does not reuse
// until the child has been reaped and the group is empty.
type group struct {
	id int

	mu     sync.Mutex
	reaped bool
	left   bool // other members were alive when the child was reaped
}

func (g *group) adopt(child *os.Process) { g.id = child.Pid }

// reap waits for the child to exit and collects its status. It acquires the lock before the pid is
// released, so signal cannot hit a new process that reuses the pid.
//
// The error from Wait is ignored because cmd.ProcessState describes the exit better.
func (g *group) reap(cmd *exec.Cmd) {
	if awaitExit(g.id) {
		g.mu.Lock()
		defer g.mu.Unlock()
		_ = cmd.Wait()
	} else {
		_ = cmd.Wait()
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	g.reaped, g.left = true, g.exists()
}

// exists reports whether the group has members, including zombies.
func (g *group) exists() bool { return unix.Kill(-g.id, 0) != unix.ESRCH }

// signal sends a signal to every member of the group, except members that run as another user.
func (g *group) signal(s syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped || g.left {
		_ = unix.Kill(-g.id, s)
	}
}

// alive reports whether the group still has members after the child was reaped. Once it has
// returned false, it never returns true again, because the id may then belong to another process. It
// reaps orphans of the group whose parent is this process, as process 1 of a container is.
func (g *group) alive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		return true
	}
	for n := 1; g.left && n > 0; {
		n, _ = unix.Wait4(-g.id, nil, unix.WNOHANG, nil)
	}
	g.left = g.left && g.exists() && memberRuns(g.id)
	return g.left
}

func signalName(state *os.ProcessState) string {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return unix.SignalName(ws.Signal())
	}
	return ""
}
