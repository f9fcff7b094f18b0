package process

import (
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tree represents a child's process group and its marked descendants outside the group. Only the
// goroutine that runs Stop uses it.
type tree struct {
	group *group
	nonce string
	// escaped holds the descendants that were found outside the group, by pid. They must be
	// remembered so that they can be reaped, because a dead process no longer has an environment
	// with a mark.
	escaped map[int]startTime
	// last is the most recently sent signal. It is also sent to descendants that are found later.
	last syscall.Signal
}

// alive reports whether any process of the tree is still running. It reaps dead processes that were
// re-parented to this process.
func (t *tree) alive() bool {
	if childless() {
		return false
	}
	group := t.group.alive()
	found := t.outside()
	for _, m := range found {
		if t.escaped == nil {
			t.escaped = make(map[int]startTime)
		}
		if t.escaped[m.pid] != m.start && t.last != 0 {
			signalExact(m.pid, m.start, t.last)
		}
		t.escaped[m.pid] = m.start
	}
	// An exiting process loses its environment before its state changes to Z.
	alive := len(found) > 0
	for pid, start := range t.escaped {
		st, err := readStat(pid)
		if err != nil || st.start != start || reapOrphan(pid, st) {
			delete(t.escaped, pid)
			continue
		}
		_, parent := t.escaped[st.ppid]
		alive = alive || st.running() || parent || st.dying()
	}
	return group || alive
}

// childless reports whether this process certainly has no descendants, dead or alive: as a
// subreaper, it is the parent of every descendant whose own parent has exited. This spares
// short-lived commands a search through all processes.
func childless() bool {
	var subreaper int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0, 0, 0)
	if err != nil || subreaper == 0 {
		return false
	}
	for {
		// This call reaps nothing and returns immediately.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if err != unix.EINTR {
			return err == unix.ECHILD
		}
	}
}

// outside returns the live marked processes that have left the group.
func (t *tree) outside() []proc {
	return slices.DeleteFunc(markedBy(t.nonce), func(p proc) bool { return p.pgrp == t.group.id })
}

func (t *tree) signal(s syscall.Signal) {
	t.last = s
	t.group.signal(s)
	for pid, start := range t.escaped {
		signalExact(pid, start, s)
	}
}

// signalExact signals the process that has this pid and start time. It opens a pidfd before
// comparing the start time, so the signal cannot reach a new process that reuses the pid.
func signalExact(pid int, start startTime, s syscall.Signal) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer p.Release()
	if st, err := readStat(pid); err == nil && st.start == start {
		_ = p.Signal(s)
	}
}

// reapOrphan reaps a dead process that was re-parented to this process. It returns false if the
// process is not dead or not a child of this process. It waits for this pid only: waiting for any
// child would steal the exit status from another Process.
func reapOrphan(pid int, st stat) bool {
	if st.state != 'Z' || st.ppid != os.Getpid() {
		return false
	}
	got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return got == pid || err == unix.ECHILD
}

// dying reports whether a zombie is a child of this process that cannot be reaped yet: its main
// thread has exited, but other threads are still running.
func (st stat) dying() bool { return st.ppid == os.Getpid() }

// membersRun reports whether a member of the group is still running. It reaps zombies that were
// re-parented to this process. This is safe because the group leader has been reaped, so no member
// is the child of another Process.
func membersRun(pgid int) bool {
	members := make(map[int]stat)
	for pid := range pids() {
		if st, err := readStat(pid); err == nil && st.pgrp == pgid && !reapOrphan(pid, st) {
			members[pid] = st
		}
	}
	for _, st := range members {
		// The dead child of an exiting parent is about to be re-parented to this process.
		if _, parent := members[st.ppid]; st.running() || parent || st.dying() {
			return true
		}
	}
	return false
}

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
