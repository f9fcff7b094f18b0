package process

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcptrack/mcptrack/core/internal/proctable"
)

// awaitExit waits until the child is dead but not yet reaped, and then returns true. It waits in
// the netpoller, because a blocking wait would occupy one thread per child.
func awaitExit(pid int) bool {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return false // before Linux 5.10, or no file descriptor available
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var waitErr error
	err = conn.Read(func(fd uintptr) bool {
		var info unix.Siginfo
		for {
			waitErr = unix.Waitid(unix.P_PIDFD, int(fd), &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
			if waitErr != unix.EINTR {
				break
			}
		}
		return waitErr != nil || info.Signo != 0
	})
	return err == nil && waitErr == nil
}

// memberRuns reports whether a member of the group is not a zombie. The first process of a
// container may never reap zombies.
func memberRuns(pgid int) bool {
	for pid := range proctable.PIDs() {
		if st, err := proctable.Read(pid); err == nil && st.Group == pgid && !st.Dead {
			return true
		}
	}
	return false
}

// unread returns how many bytes in the pipe with the given write end have not been read.
func unread(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// sacrifice makes the kernel kill this child before other processes when memory runs out, because
// the tracker can restart the child.
func sacrifice(pid int) {
	_ = os.WriteFile(proctable.Path(pid, "oom_score_adj"), []byte("1000"), 0) // may have exited
}
