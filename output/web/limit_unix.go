//go:build unix

package web

import (
	"math"
	"syscall"
)

// mostConns returns how many connections the limit of open files allows: three quarters of it,
// since the rest of the program also opens files.
func mostConns() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || uint64(limit.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur) * 3 / 4
}
