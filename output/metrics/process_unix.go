//go:build unix

package metrics

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process adds the metrics of this process, except those that the system does not reveal.
func (s page) process(started time.Time) {
	s.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(started.UnixMilli())/1000)
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		s.add("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", "counter", float64(used.Utime.Nano()+used.Stime.Nano())/1e9)
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		s.gauge("process_max_fds", "Maximum number of open file descriptors.", float64(limit.Cur))
	}
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) == nil {
		s.gauge("process_virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes.", float64(limit.Cur))
	}
	if open, err := os.ReadDir("/dev/fd"); err == nil {
		s.gauge("process_open_fds", "Number of open file descriptors.", float64(len(open)-1)) // without the folder
	}
	// The rest is of Linux, see proc_pid_stat(5). The name of the process may contain anything but ends
	// with the last parenthesis.
	if text, err := os.ReadFile("/proc/self/stat"); err == nil {
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		number := func(n int) float64 { // of the fields, as the manual counts them
			v, _ := strconv.ParseFloat(fields[n-3], 64)
			return v
		}
		if len(fields) > 24-3 {
			s.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", number(23))
			s.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", number(24)*float64(os.Getpagesize()))
		}
	}
	if text, err := os.ReadFile("/proc/self/net/netstat"); err == nil { // of all processes of the container
		var names []string // a line with names and one with values alternate
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(names) != len(fields) || len(fields) == 0 || fields[0] != names[0] {
				names = fields
				continue
			}
			for i, name := range names {
				value, _ := strconv.ParseUint(fields[i], 10, 64)
				switch name {
				case "InOctets":
					s.counter("process_network_receive_bytes_total", "Number of bytes received by the process over the network.", value)
				case "OutOctets":
					s.counter("process_network_transmit_bytes_total", "Number of bytes sent by the process over the network.", value)
				}
			}
		}
	}
}
