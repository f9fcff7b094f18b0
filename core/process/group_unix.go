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

// sysProcAttr makes the child lead its own group. Pdeathsig is not used: it fires when the creating
// thread ends, not the process (golang/go #27505).
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// group is the child's process group. Its id is the child's pid, which the kernel does not reuse
// until the child is reaped and no member is left.
type group struct {
	id int

	mu     sync.Mutex
	reaped bool
	left   bool // members were alive when the child was reaped
}

func (g *group) adopt(child *os.Process) { g.id = child.Pid }

// reap waits for the child and takes its status. It holds the lock from before the pid is freed, so
// signal cannot hit the pid's next owner.
//
// The error of Wait is ignored: cmd.ProcessState describes the end better.
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

// signal signals every member except those that changed their user.
func (g *group) signal(s syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped || g.left {
		_ = unix.Kill(-g.id, s)
	}
}

// alive reports whether members are left after the child was reaped. Once false, it stays false:
// the id may then belong to another process.
func (g *group) alive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		return true
	}
	g.left = g.left && g.exists() && membersRun(g.id)
	return g.left
}

func signalName(state *os.ProcessState) string {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return unix.SignalName(ws.Signal())
	}
	return ""
}
