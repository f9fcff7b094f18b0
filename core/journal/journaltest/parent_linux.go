package journaltest

import "syscall"

// endsWithParent returns attributes that make the kernel kill a process when the thread that
// started it exits. That includes cases in which a test cannot clean up, because it was killed or
// panicked.
func endsWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
