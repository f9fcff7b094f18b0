package process

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
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
	for pid := range pids() {
		if st, err := readStat(pid); err == nil && st.pgrp == pgid && !st.dead {
			return true
		}
	}
	return false
}

// pids yields the process ids in /proc. Processes may start and exit during the iteration.
func pids() iter.Seq[int] {
	return func(yield func(int) bool) {
		dir, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer dir.Close()
		names, _ := dir.Readdirnames(-1)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil && !yield(pid) {
				return
			}
		}
	}
}

// stat holds the fields of /proc/PID/stat that this package uses; see proc_pid_stat(5).
type stat struct {
	dead  bool // a zombie
	pgrp  int
	start string // in clock ticks since boot; together with the pid, it identifies a process
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The command name may contain blanks and parentheses.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return stat{}, errors.New("short stat file")
	}
	pgrp, err := strconv.Atoi(string(fields[2]))
	return stat{dead: bytes.ContainsAny(fields[0], "ZX"), pgrp: pgrp, start: string(fields[19])}, err
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
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("1000"), 0) // may have exited
}
