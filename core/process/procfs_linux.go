package process

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// startTime is the time at which a process started, in clock ticks since boot. Together with the
// pid, it identifies a process even after the pid has been reused.
type startTime uint64

// stat holds the fields of /proc/PID/stat that this package uses; see proc_pid_stat(5).
type stat struct {
	state         byte
	ppid          int
	pgrp, session int
	start         startTime
}

// running reports whether the process is alive and not a zombie.
func (st stat) running() bool { return st.state != 'Z' && st.state != 'X' }

// proc is a process found in /proc.
type proc struct {
	pid   int
	pgrp  int
	start startTime
}

// maxEnviron is how many bytes of a process's environment are read at most. Linux allows about 2
// MiB for arguments and environment together.
const maxEnviron = 2 << 20

// pids yields the process ids in /proc. Processes may start and exit during the iteration.
func pids() iter.Seq[int] {
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

func procPath(pid int, file string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + file
}

func readStat(pid int) (stat, error) {
	b, err := readProc(procPath(pid, "stat"), make([]byte, 0, 512), 4<<10)
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// parseStat parses the fields that follow the command name, because the name may contain blanks and
// parentheses.
func parseStat(b []byte) (stat, error) {
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return stat{}, errors.New("short stat file")
	}
	var st stat
	st.state = fields[0][0]
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	st.start = startTime(start)
	for i, to := range []*int{&st.ppid, &st.pgrp, &st.session} {
		if err == nil {
			*to, err = strconv.Atoi(string(fields[1+i]))
		}
	}
	return st, err
}

// markOf returns the value of NonceKey in the environment of a process. It returns nil if the
// variable is not set, the process is a zombie, or its environment is not readable. buf is reused
// between calls.
func markOf(pid int, buf *[]byte) []byte {
	b, err := readProc(procPath(pid, "environ"), (*buf)[:0], maxEnviron)
	*buf = b
	if err != nil {
		return nil
	}
	const key = NonceKey + "="
	for len(b) > 0 {
		entry, rest, _ := bytes.Cut(b, []byte{0})
		if v, ok := bytes.CutPrefix(entry, []byte(key)); ok {
			return v
		}
		b = rest
	}
	return nil
}

// markedBy returns the live processes that have exactly this mark.
func markedBy(nonce string) []proc {
	var found []proc
	buf := make([]byte, 0, 8<<10)
	for pid := range pids() {
		if string(markOf(pid, &buf)) != nonce {
			continue
		}
		if st, err := readStat(pid); err == nil && st.running() {
			found = append(found, proc{pid: pid, pgrp: st.pgrp, start: st.start})
		}
	}
	return found
}

// readProc appends the content of a small file to b. It avoids os.File because a scan opens
// thousands of files, for which registering with the poller would be overhead.
func readProc(path string, b []byte, limit int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return b, err
	}
	defer unix.Close(fd)
	for len(b) < limit {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := unix.Read(fd, b[len(b):cap(b)])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return b, err
		}
		if n <= 0 {
			break
		}
		b = b[:len(b)+n]
	}
	return b, nil
}
