package machine

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcptrack/mcptrack/core/internal/proctable"
)

// tick is the unit of start times, which is the same on all architectures that Go supports.
const tick = time.Second / 100

// processes reads the process table. Processes that end meanwhile, or whose command line cannot be
// read, are omitted.
func processes(ctx context.Context) ([]process, error) {
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return nil, err
	}
	boot := time.Now().Add(-time.Duration(up.Nano()))
	var out []process
	for pid := range proctable.PIDs() {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		line, err := os.ReadFile(proctable.Path(pid, "cmdline"))
		if err != nil || len(line) == 0 || pid != 1 && !isOwn(pid) {
			continue
		}
		st, err := proctable.Read(pid)
		if err != nil {
			continue
		}
		ticks, err := strconv.ParseInt(st.Start, 10, 64)
		if err != nil {
			continue
		}
		p := process{pid: pid, parent: st.Parent, args: strings.Split(strings.TrimRight(string(line), "\x00"), "\x00"),
			started: boot.Add(time.Duration(ticks) * tick), identity: st.Start, memory: st.Resident, stdio: readsPipe(pid)}
		if kib, err := strconv.ParseInt(strings.TrimSuffix(field(pid, "smaps_rollup", "Pss:"), " kB"), 10, 64); err == nil {
			p.memory = kib << 10 // the proportional set size; see proc_pid_smaps(5)
		}
		out = append(out, p)
	}
	return out, nil
}

// running reports whether p is still the same process.
func (p *process) running(context.Context) bool {
	st, err := proctable.Read(p.pid)
	return err == nil && st.Start == p.identity && !st.Dead
}

// isOwn reports whether a process belongs to the user of this one, or that is root.
func isOwn(pid int) bool {
	own := os.Getuid()
	return own == 0 || strings.HasPrefix(field(pid, "status", "Uid:"), strconv.Itoa(own)+"\t") // the real one is first
}

// field returns the rest of the line that begins with a name in a file about a process, or an empty
// text.
func field(pid int, file, name string) string {
	text, _ := os.ReadFile(proctable.Path(pid, file)) // empty if the file may not be read
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// readsPipe reports whether the stdin of a process is a pipe or socket, as it is for a server that
// uses stdio. It returns true if that is unknown.
func readsPipe(pid int) bool {
	target, err := os.Readlink(proctable.Path(pid, "fd/0"))
	return err != nil || strings.HasPrefix(target, "pipe:") || strings.HasPrefix(target, "socket:")
}
