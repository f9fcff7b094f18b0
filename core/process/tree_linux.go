package process

import (
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tree is a child's process group and its marked descendants outside the group. Only the goroutine
// that runs Stop uses it.
type tree struct {
	group *group
	nonce string
	// escaped holds the descendants seen outside the group, by pid. Dead ones have no environment,
	// so they must be remembered to be reaped.
	escaped map[int]startTime
	// last is the signal sent last; descendants found later also get it.
	last syscall.Signal
}

// alive reports whether any process of the tree runs. It reaps dead ones that were re-parented to
// us.
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
	// A dying process loses its environment before its state becomes Z.
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

// childless reports whether this process certainly has no descendants, not even dead ones: a
// subreaper is the parent of every descendant whose own parent is gone. This saves one-shot
// commands the search through all processes.
func childless() bool {
	var subreaper int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0, 0, 0)
	if err != nil || subreaper == 0 {
		return false
	}
	for {
		// It reaps nothing and returns immediately.
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if err != unix.EINTR {
			return err == unix.ECHILD
		}
	}
}

// outside finds living marked processes that left the group.
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

// signalExact signals the process that had this pid at this start time. It opens the handle before
// it compares the start time, so the signal cannot reach a later owner of the pid.
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

// reapOrphan reaps a dead process that was re-parented to us; false if it is not dead or not ours.
// It waits for this pid only: waiting for any child would steal the status of another Process.
func reapOrphan(pid int, st stat) bool {
	if st.state != 'Z' || st.ppid != os.Getpid() {
		return false
	}
	got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
	return got == pid || err == unix.ECHILD
}

// dying reports whether a zombie is ours but cannot be reaped yet: its first thread has ended,
// others have not.
func (st stat) dying() bool { return st.ppid == os.Getpid() }

// membersRun reports whether a member of the group runs. It reaps zombies that were re-parented to
// us: the leader is gone, so no member is the child of another Process.
func membersRun(pgid int) bool {
	members := make(map[int]stat)
	for pid := range pids() {
		if st, err := readStat(pid); err == nil && st.pgrp == pgid && !reapOrphan(pid, st) {
			members[pid] = st
		}
	}
	for _, st := range members {
		// The dead child of a dying parent is about to be re-parented to us.
		if _, parent := members[st.ppid]; st.running() || parent || st.dying() {
			return true
		}
	}
	return false
}

// awaitExit waits until the child is dead but not reaped, and returns true. It waits on the
// netpoller because a blocking wait would cost a thread per child.
func awaitExit(pid int) bool {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return false // before Linux 5.10, or no descriptor left
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
