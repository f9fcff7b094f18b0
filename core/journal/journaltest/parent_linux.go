package journaltest

import "syscall"

// endsWithParent makes the system kill a process when the thread that started it ends, even if the
// test was killed or panicked and so ran no cleanup.
func endsWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
