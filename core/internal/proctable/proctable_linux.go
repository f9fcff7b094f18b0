package proctable

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"strconv"
)

// Stat holds fields of /proc/PID/stat; see proc_pid_stat(5).
type Stat struct {
	Dead          bool // a zombie
	Parent, Group int
	Start         string // in clock ticks since boot; together with the pid, it identifies a process
	Resident      int64  // bytes of memory
}

// Read returns the fields of a process.
func Read(pid int) (Stat, error) {
	b, err := os.ReadFile(Path(pid, "stat"))
	if err != nil {
		return Stat{}, err
	}
	// The command name may contain blanks and parentheses.
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 22 {
		return Stat{}, errors.New("short stat file")
	}
	parent, err := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	pages, err3 := strconv.ParseInt(string(fields[21]), 10, 64)
	return Stat{bytes.ContainsAny(fields[0], "ZX"), parent, group, string(fields[19]), pages * int64(os.Getpagesize())}, errors.Join(err, err2, err3)
}

// PIDs yields the process ids in /proc. Processes may start and exit during the iteration.
func PIDs() iter.Seq[int] {
	return func(yield func(int) bool) {
		dir, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer dir.Close()
		names, _ := dir.Readdirnames(-1)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil && !yield(pid) {
				return
			}
		}
	}
}

// Path returns the path of a file about a process.
func Path(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }
