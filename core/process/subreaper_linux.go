package process

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// Subreaper makes the kernel hand orphaned descendants to this process instead
// of init (PR_SET_CHILD_SUBREAPER, prctl(2)), so that Stop sees them die. It is
// for main, once, before the first Start; an orphan that dies is then ours to
// reap, so main runs [ReapOrphans] too.
func Subreaper() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

const (
	// reapPause is the least time between two scans: a fork storm below us must not load us.
	reapPause = time.Second
	// reapDoubt is how long a zombie that may be a direct child must remain before it is
	// reaped. A Process reaps its own child within milliseconds.
	reapDoubt = 30 * time.Second
)

// ReapOrphans reaps dead descendants that were re-parented to this process, until
// ctx is done. Run it on one goroutine after [Subreaper], and always when the
// tracker is process 1 of a container. It never takes the status of a child
// started by [Start] or by os/exec in the usual way.
func ReapOrphans(ctx context.Context) {
	// Capacity 1: the signal only says that there is something to reap.
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	tick := time.NewTicker(reapDoubt)
	defer tick.Stop()
	doubtful := make(map[proc]time.Time)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(reapPause):
		}
		doubtful = reapRound(doubtful, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-died:
		case <-tick.C:
		}
	}
}

// reapRound looks at our zombies once. Children of os/exec are in our group, children of Start
// lead a group in our session; all other zombies are orphans and are reaped. Those that look
// like a child of Start are returned with the time they were first seen.
func reapRound(doubtful map[proc]time.Time, now time.Time) map[proc]time.Time {
	self := os.Getpid()
	own, err := readStat(self)
	if err != nil {
		return doubtful
	}
	next := make(map[proc]time.Time)
	for pid := range pids() {
		st, err := readStat(pid)
		if err != nil || st.ppid != self || st.state != 'Z' {
			continue
		}
		p := proc{pid: pid, pgrp: st.pgrp, start: st.start}
		if st.session == own.session && (st.pgrp == pid || st.pgrp == own.pgrp) {
			since, seen := doubtful[p]
			if !seen {
				since = now
			}
			if now.Sub(since) < reapDoubt {
				next[p] = since
				continue
			}
		}
		reapOrphan(pid, st)
	}
	return next
}

func ownStart() uint64 {
	st, err := readStat(os.Getpid())
	if err != nil {
		return 0
	}
	return uint64(st.start)
}
