package process

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
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

// group is a job object with the child and its descendants. The system kills its members when its
// only handle is closed, also because this process was killed.
type group struct {
	child *os.Process

	mu     sync.Mutex
	job    windows.Handle // 0 if there is none, or after it was closed
	reaped bool
}

// adopt puts the child into the job. A process that the child started before that stays outside. If
// there can be no job, only the child is killed.
func (g *group) adopt(child *os.Process) {
	g.child = child
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		_ = child.WithHandle(func(h uintptr) { err = windows.AssignProcessToJobObject(job, windows.Handle(h)) })
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return
	}
	g.job = job
}

// reap waits for the child to exit. The error from Wait is ignored because cmd.ProcessState
// describes the exit better.
func (g *group) reap(cmd *exec.Cmd) {
	_ = cmd.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reaped = true
}

// signal kills all members: Windows has no signal that asks a process to exit.
func (g *group) signal(syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.reaped {
		_ = g.child.Kill()
	}
	if g.job != 0 {
		_ = windows.CloseHandle(g.job)
		g.job = 0
	}
}

func (g *group) alive() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.reaped || g.job != 0
}

func signalName(*os.ProcessState) string { return "" }

// RoomForFiles always returns nil: Windows has no such limit.
func RoomForFiles() error { return nil }

// Explain returns the error unchanged, because limits are not recognised on Windows.
func Explain(err error) error { return err }
