package process

import (
	"bytes"
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

	"golang.org/x/sys/unix"

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
	self := os.Getpid()
	var env []byte // reused, because there may be many processes
	meant := func(pid int) bool {
		env = readEnviron(pid, env[:0])
		_, mark, _ := bytes.Cut(env, []byte("\x00"+markKey+"="))
		mark, _, ok := bytes.Cut(mark, []byte{0})
		return ok && condition(string(mark))
	}
	for pid := range proctable.PIDs() {
		if pid == self || !meant(pid) {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if meant(pid) && p.Signal(s) == nil { // read again: the signal reaches no later process with this id
			n++
		}
		_ = p.Release()
	}
	return n
}

// readEnviron appends a null byte and the environment of a process, which is empty for zombies and other users'
// processes. It makes no system calls but those to open, read and close.
func readEnviron(pid int, b []byte) []byte {
	b = append(b, 0)
	fd, err := unix.Open(proctable.Path(pid, "environ"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return b
	}
	defer unix.Close(fd)
	for n := 1; n > 0; b = b[:len(b)+max(n, 0)] {
		b = slices.Grow(b, 4<<10)
		n, _ = unix.Read(fd, b[len(b):cap(b)])
	}
	return b
}
