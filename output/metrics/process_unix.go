//go:build unix

package metrics

import (
	"fmt"
	"os"
	"syscall"
)

// process adds the metrics of this process, except those that the system does not reveal.
func (s page) process() {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		s.add("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", "counter", float64(used.Utime.Nano()+used.Stime.Nano())/1e9)
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		s.gauge("process_max_fds", "Maximum number of open file descriptors.", float64(limit.Cur))
	}
	if open, err := os.ReadDir("/dev/fd"); err == nil {
		s.gauge("process_open_fds", "Number of open file descriptors.", float64(len(open)-1)) // without the folder
	}
	// Only Linux has this file; see proc_pid_statm(5).
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		var pages [2]int
		_, _ = fmt.Sscan(string(text), &pages[0], &pages[1])
		s.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", float64(pages[0]*os.Getpagesize()))
		s.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", float64(pages[1]*os.Getpagesize()))
	}
}
