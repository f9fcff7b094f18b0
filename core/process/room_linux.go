package process

import (
	"cmp"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread returns how many bytes in the pipe with the given write end have not been read.
func unread(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// A control group (cgroup) limits the tasks (processes and their threads) and the memory of all its
// members. See https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroup-v1/pids.html.

// spareTasks is the number of tasks (mostly threads) that must stay available, because a Go process
// that cannot create a thread crashes.
const spareTasks = 12

// roomForTasks returns an error if the control group does not allow another process.
func roomForTasks() error {
	var full error
	eachGroup("pids", func(dir string) bool {
		limit, bounded := number(dir + "/pids.max")
		now, known := number(dir + "/pids.current")
		if bounded && known && limit-now < spareTasks {
			full = &LimitError{What: "too many processes", Limit: limit, Err: syscall.EAGAIN}
		}
		return full == nil
	})
	return full
}

// taskLimit returns the smallest task limit of the control group and its ancestors, or 0 if it is
// unknown.
func taskLimit() (limit int) {
	eachGroup("pids", func(dir string) bool {
		if n, bounded := number(dir + "/pids.max"); bounded && (limit == 0 || n < limit) {
			limit = n
		}
		return true
	})
	return cmp.Or(limit, softLimit(unix.RLIMIT_NPROC))
}

// memoryKills returns how many processes the kernel has killed because the control group ran out of
// memory.
func memoryKills() (kills int) {
	eachGroup("memory", func(dir string) bool {
		for _, file := range []string{"/memory.events", "/memory.oom_control"} {
			raw, err := os.ReadFile(dir + file)
			if err != nil {
				continue
			}
			for line := range strings.Lines(string(raw)) {
				if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
					n, _ := strconv.Atoi(strings.TrimSpace(n))
					kills += n
				}
			}
			return false // the counter of a group includes its descendants
		}
		return true
	})
	return kills
}

// sacrifice makes the kernel kill this child before other processes when memory runs out, because
// the tracker can restart the child.
func sacrifice(pid int) {
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("1000"), 0) // may have exited
}

// eachGroup calls f with the directory of the controller's control group that contains this
// process, and then with each parent directory, until f returns false.
func eachGroup(controller string, f func(dir string) bool) {
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(raw)) {
		hierarchy, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		names, at, ok := strings.Cut(rest, ":")
		root := "/sys/fs/cgroup"
		switch {
		case !ok || !path.IsAbs(at):
			continue
		case hierarchy == "0" && names == "": // cgroup version 2
		case strings.Contains(","+names+",", ","+controller+","):
			root += "/" + controller
		default:
			continue
		}
		for at = path.Clean(at); ; at = path.Dir(at) {
			if !f(root + strings.TrimSuffix(at, "/")) {
				return
			}
			if at == "/" {
				break
			}
		}
	}
}

// number reads a file that contains one number. It returns false if the file contains a word
// instead, such as "max".
func number(file string) (int, bool) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	return n, err == nil
}
