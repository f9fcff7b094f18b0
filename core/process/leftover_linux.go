package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/proctable"
)

// Sweep ends the processes that a killed tracker left behind: every process with a mark whose owner
// no longer runs. They receive SIGTERM and, if they still run 2 s later, SIGKILL, unless ctx ends
// before. A tracker that is itself the child of a tracker leaves this to the latter.
func Sweep(ctx context.Context) {
	if os.Getenv(markKey) != "" || signalMarked(terminate, ownerless) == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(defaultTerm):
		signalMarked(kill, ownerless)
	}
}

// killDescendants kills what still has a mark that Start has set for one child.
func killDescendants(mark string) {
	signalMarked(kill, func(of string) bool { return of == mark })
}

// KillMarked immediately kills every process that Start started in this process, and all their
// descendants. Use it when the program must exit without an orderly Stop.
func KillMarked() {
	own := owner() + "-"
	signalMarked(kill, func(mark string) bool { return strings.HasPrefix(mark, own) })
}

// markKey is the environment variable that marks every child, and so its descendants. Its value
// names the owner, by process id, start time and process id namespace of the tracker, and the child.
const markKey = "MCPTRACK_CHILD"

// marked returns env with a mark of its own for a child. Of equal names, os/exec uses the last.
func marked(env []string) (with []string, mark string) {
	mark = owner() + "-" + rand.Text()
	return append(slices.Clip(env), markKey+"="+mark), mark
}

func owner() string {
	own, _ := proctable.Read(os.Getpid())
	return fmt.Sprintf("%d-%s-%s", os.Getpid(), own.Start, namespace())
}

func namespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}

// ownerless reports whether the owner that a mark names has ended. It is false for an owner in
// another namespace, whose process id means nothing here.
func ownerless(mark string) bool {
	owner := strings.SplitN(mark, "-", 4)
	pid, err := strconv.Atoi(owner[0])
	if err != nil || len(owner) < 3 || owner[2] != namespace() {
		return false
	}
	st, err := proctable.Read(pid)
	return errors.Is(err, fs.ErrNotExist) || err == nil && (st.Dead || st.Start != owner[1])
}

// signalMarked sends a signal to every other process whose mark satisfies the condition. It returns
// how many there were.
func signalMarked(s syscall.Signal, condition func(mark string) bool) (n int) {
	for pid := range proctable.PIDs() {
		if pid == os.Getpid() {
			continue
		}
		p, err := os.FindProcess(pid) // before its mark is read: the signal reaches no later process with this id
		if err != nil {
			continue
		}
		env, _ := os.ReadFile(proctable.Path(pid, "environ")) // empty for zombies and other users' processes
		for kv := range strings.SplitSeq(string(env), "\x00") {
			if mark, ok := strings.CutPrefix(kv, markKey+"="); ok && condition(mark) && p.Signal(s) == nil {
				n++
			}
		}
		_ = p.Release()
	}
	return n
}
