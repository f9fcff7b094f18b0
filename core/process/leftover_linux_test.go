package process_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/process"
)

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

// Stop also ends a descendant that has left the group and ignores SIGTERM, and no other child.
func TestStopEndsWhatLeftTheGroup(t *testing.T) {
	other := start(t, "stubborn")
	pidOf(other)
	p := start(t, "leaver")
	victim := pidOf(p)
	p.Stop(process.Grace{Stdin: -1, Term: -1})
	eventually(t, "the descendant is gone", func() bool { return !runs(victim) })
	if !runs(other.PID()) {
		t.Fatal("another child was killed")
	}
}

// What a killed tracker left behind is killed, and nothing of a tracker that runs.
func TestSweep(t *testing.T) {
	mine := start(t, "stubborn")
	pidOf(mine)
	owner := start(t, "owner")
	victim := pidOf(owner)
	process.Sweep(t.Context())
	if !runs(victim) {
		t.Fatal("a descendant of a running tracker was killed")
	}
	if err := syscall.Kill(owner.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait(t, owner)
	process.Sweep(t.Context())
	eventually(t, "the leftover is gone", func() bool { return !runs(victim) })
	if !runs(mine.PID()) {
		t.Fatal("a child of this process was killed")
	}
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
