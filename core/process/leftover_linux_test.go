package process_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/process"
)

func TestEscapees(t *testing.T) {
	for _, role := range []string{"setsid", "daemon"} {
		t.Run(role, func(t *testing.T) {
			p := start(t, role)
			pid := pidOf(p)
			if pgid, err := syscall.Getpgid(pid); err != nil || pgid == p.PID() {
				t.Fatalf("pid %d should have left the group: %d, %v", pid, pgid, err)
			}
			p.Stop(process.Grace{Stdin: 10 * time.Second, Term: 50 * time.Millisecond})
			if exists(pid) {
				t.Fatal("the escapee is alive or a zombie")
			}
			if e := p.Exit(); e.Code != 0 {
				t.Fatalf("the child left in time and must not be signalled: %v", e)
			}
		})
	}
}

// Stop does not touch descendants of another Process that left the group.
func TestStopSparesOthers(t *testing.T) {
	other := start(t, "setsid")
	pid := pidOf(other)
	p := start(t, "setsid")
	pidOf(p)
	p.Stop(process.Grace{Stdin: 10 * time.Second, Term: 10 * time.Millisecond})
	if !exists(pid) || !exists(other.PID()) {
		t.Fatal("the process tree of another Process was signalled")
	}
}

func TestNothingIsLeft(t *testing.T) {
	const cycles = 50
	pidOf(start(t, "idle")) // opens what is opened only once
	files, kids := openFiles(t), len(children(t))
	for i := range cycles {
		role := []string{"exit3", "cat", "wrapper"}[i%3]
		p := must(process.Start(spec(role)))
		if i%2 == 0 {
			p.Stdin().Close()
			wait(t, p)
		}
		p.Stop(process.Grace{Stdin: 10 * time.Second, Term: -1})
	}
	if now := openFiles(t); now != files {
		t.Errorf("%d files open before, %d after %d cycles", files, now, cycles)
	}
	eventually(t, "no more children than before", func() bool { return len(children(t)) <= kids })
}

func TestReapOrphans(t *testing.T) {
	p := start(t, "setsid-dies")
	pid := pidOf(p)
	wait(t, p)
	eventually(t, "the orphan is ours", func() bool { return children(t)[pid] != "" })
	p.Stdin().Close()
	eventually(t, "the orphan is a zombie", func() bool { return children(t)[pid] == "Z" })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}) // closed by the reaper's goroutine
	go func() { defer close(ended); process.ReapOrphans(ctx) }()
	eventually(t, "the orphan is reaped", func() bool { return !exists(pid) })
	cancel()
	<-ended
}

// A direct child that dies while orphans are reaped keeps its status.
func TestReapOrphansStealsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}) // closed by the reaper's goroutine
	go func() { defer close(ended); process.ReapOrphans(ctx) }()
	for range 20 {
		p := start(t, "exit3")
		wait(t, p)
		if e := p.Stop(process.Grace{}); e.Code != 3 {
			t.Errorf("got %v", e)
		}
	}
	cancel()
	<-ended
}

// leaveBehind makes a leftover: the child of an owner that was killed.
func leaveBehind(t *testing.T) (victim int) {
	t.Helper()
	owner := start(t, "owner")
	victim = pidOf(owner)
	// Leftovers of other programs on this machine may also be swept.
	if _, err := process.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if !exists(victim) {
		t.Fatal("a child of a living tracker was hit")
	}
	if err := syscall.Kill(owner.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, owner)
	return victim
}

// gone reports whether a leftover, by now a child of this test, was ended.
func gone(t *testing.T, victim int) bool {
	t.Helper()
	state := children(t)[victim]
	return state == "" || state == "Z"
}

func TestSweep(t *testing.T) {
	mine := start(t, "stubborn")
	pidOf(mine)
	for try := 1; ; try++ {
		victim := leaveBehind(t)
		n, err := process.Sweep(t.Context(), nil)
		if err != nil || !gone(t, victim) {
			t.Fatalf("killed %d, %v; the leftover is gone: %t", n, err, gone(t, victim))
		}
		reap(t, victim)
		if n > 0 {
			break
		}
		if try == 5 { // another tracker on this machine may be faster
			t.Fatal("another program removed it every time")
		}
	}
	if !exists(mine.PID()) {
		t.Fatal("our own child was hit")
	}
}

func TestSweepIsCancelled(t *testing.T) {
	for try := 1; ; try++ {
		victim := leaveBehind(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fmt.Errorf("no time"))
		_, err := process.Sweep(ctx, nil)
		_ = syscall.Kill(victim, syscall.SIGKILL)
		reap(t, victim)
		if err != nil && strings.Contains(err.Error(), "no time") {
			return
		}
		if err != nil || try == 5 { // nil: another tracker was faster
			t.Fatalf("got %v", err)
		}
	}
}

// reap reaps a leftover that was re-parented to this test, as init would.
func reap(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "the leftover is reaped", func() bool {
		got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		return got == pid || err == syscall.ECHILD
	})
}

// children returns the direct children of this process with their states.
func children(t testing.TB) map[int]string {
	t.Helper()
	found := make(map[int]string)
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			found[pid] = fields[0]
		}
	}
	return found
}
