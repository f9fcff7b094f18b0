package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// Sweep kills the processes that a crashed or killed tracker of this user left behind: every
// process whose mark specifies an owner, by pid and start time, that is no longer running. Each
// receives SIGTERM and, 2 s later, SIGKILL. Sweep never touches children of running trackers, this
// process and its ancestors, or processes in other PID namespaces, whose pids are not comparable
// with ours. Call it at the start of main, before the first Start.
//
// killed is the number of processes that exited. The error reports that some processes remain, or
// why Sweep stopped early. log may be nil.
func Sweep(ctx context.Context, log *slog.Logger) (killed int, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	left := leftovers()
	if len(left) == 0 {
		return 0, nil
	}
	found := len(left)
	log.Info("stopping processes that a killed mcptrack left behind", "count", found)
	for _, step := range []struct {
		sig  syscall.Signal
		wait time.Duration
	}{{terminate, defaultTerm}, {kill, killWait}} {
		for _, p := range left {
			signalExact(p.pid, p.start, step.sig)
		}
		if left, err = awaitGone(ctx, left, step.wait); err != nil || len(left) == 0 {
			break
		}
	}
	killed = found - len(left)
	switch {
	case err != nil:
		return killed, fmt.Errorf("stop leftover processes: %w", err)
	case len(left) > 0:
		return killed, fmt.Errorf("stop leftover processes: %d processes survived SIGKILL", len(left))
	}
	return killed, nil
}

// KillMarked immediately kills every process that Start started in this process, and all their
// descendants. Use it when the program must exit without an orderly Stop.
func KillMarked() {
	own := ownMark()
	buf := make([]byte, 0, 8<<10)
	for pid := range pids() {
		if owner, _, _, ok := parseMark(string(markOf(pid, &buf))); !ok || owner != own || pid == os.Getpid() {
			continue
		}
		if st, err := readStat(pid); err == nil {
			signalExact(pid, st.start, kill)
		}
	}
}

// leftovers returns the marked processes of this user whose owner is no longer running.
func leftovers() []proc {
	self, uid := os.Getpid(), uint32(os.Geteuid())
	namespace, err := os.Readlink(procPath(self, "ns/pid"))
	if err != nil {
		return nil
	}
	spared := ancestors(self)
	alive := make(map[string]bool) // keyed by owner: the mark without its random part
	var left []proc
	buf := make([]byte, 0, 8<<10)
	for pid := range pids() {
		var st syscall.Stat_t
		if spared[pid] || syscall.Stat(procPath(pid, ""), &st) != nil || st.Uid != uid {
			continue
		}
		mark := string(markOf(pid, &buf))
		owner, ownerPid, ownerStart, ok := parseMark(mark)
		if !ok {
			continue
		}
		if _, known := alive[owner]; !known {
			alive[owner] = runs(ownerPid, ownerStart)
		}
		if ns, err := os.Readlink(procPath(pid, "ns/pid")); alive[owner] || err != nil || ns != namespace {
			continue
		}
		if st, err := readStat(pid); err == nil && st.running() {
			left = append(left, proc{pid: pid, pgrp: st.pgrp, start: st.start})
		}
	}
	return left
}

// parseMark splits a mark of the form pid-start-random. ok is false if this version of mcptrack
// cannot have written the mark.
func parseMark(mark string) (owner string, pid int, start startTime, ok bool) {
	i := strings.LastIndexByte(mark, '-')
	if i < 0 {
		return "", 0, 0, false
	}
	owner = mark[:i]
	pidText, startText, _ := strings.Cut(owner, "-")
	pid, err := strconv.Atoi(pidText)
	if err != nil || pid <= 0 {
		return "", 0, 0, false
	}
	ticks, err := strconv.ParseUint(startText, 10, 64)
	if err != nil || ticks == 0 {
		return "", 0, 0, false
	}
	return owner, pid, startTime(ticks), true
}

// ancestors returns the pids of a process and all its ancestors. Sweep spares them: a tracked
// server that is itself a tracker must not kill its own wrapper.
func ancestors(pid int) map[int]bool {
	line := make(map[int]bool)
	for pid > 0 && !line[pid] {
		line[pid] = true
		st, err := readStat(pid)
		if err != nil {
			break
		}
		pid = st.ppid
	}
	return line
}

func runs(pid int, start startTime) bool {
	st, err := readStat(pid)
	return err == nil && st.start == start && st.running()
}

// awaitGone waits up to d for processes to exit and returns the ones that are still running.
func awaitGone(ctx context.Context, left []proc, d time.Duration) ([]proc, error) {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if backoff.Poll(limited, lookAgain, func() bool {
		left = slices.DeleteFunc(left, func(p proc) bool { return !runs(p.pid, p.start) })
		return len(left) == 0
	}) {
		return nil, nil
	}
	return left, context.Cause(ctx)
}

// Subreaper makes the kernel re-parent orphaned descendants to this process instead of init
// (PR_SET_CHILD_SUBREAPER, see prctl(2)), so that Stop can detect that they have exited. main calls
// it once, before the first Start, and must then run [ReapOrphans], because this process must then
// reap dead orphans.
func Subreaper() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

const (
	// reapPause is the minimum time between two scans, so that descendants that fork rapidly cannot
	// keep this process busy.
	reapPause = time.Second
	// reapDoubt is how long a zombie that may be a direct child must exist before it is reaped. A
	// Process reaps its own child within milliseconds.
	reapDoubt = 30 * time.Second
)

// ReapOrphans reaps dead descendants that were re-parented to this process, until ctx is done. Run
// it in one goroutine after [Subreaper], and always if the tracker is process 1 of a container. It
// does not reap children started by [Start], nor children started by os/exec unless they were moved
// to another process group.
func ReapOrphans(ctx context.Context) {
	// Capacity 1: a pending signal only means that some child has exited.
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

// reapRound examines all zombie children of this process once. Children of os/exec are in our
// process group; a child of Start leads its own group in our session; any other zombie is an orphan
// and is reaped. It returns the zombies that look like children of Start, each with the time at
// which it was first seen.
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
