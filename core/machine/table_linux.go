package machine

import (
	"bufio"
	"context"
	"os"
	"strconv"
	"strings"

	ps "github.com/shirou/gopsutil/v4/process"
)

// memoryOf returns the proportional set size of a process in bytes, or its resident set size if the
// kernel does not reveal the former; see proc_pid_smaps(5).
func memoryOf(ctx context.Context, p *ps.Process) int64 {
	f, err := os.Open(procPath(int(p.Pid), "smaps_rollup"))
	if err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if value, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
				kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
				if err == nil {
					return kib << 10
				}
			}
		}
	}
	if m, err := p.MemoryInfoWithContext(ctx); err == nil {
		return int64(m.RSS)
	}
	return 0
}

// readsPipe reports whether the stdin of a process is a pipe or socket, as it is for a server that
// uses stdio. It returns true if that is unknown.
func readsPipe(pid int) bool {
	target, err := os.Readlink(procPath(pid, "fd/0"))
	return err != nil || strings.HasPrefix(target, "pipe:") || strings.HasPrefix(target, "socket:")
}

func procPath(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }
