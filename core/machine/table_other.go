//go:build !linux

package machine

import (
	"context"

	ps "github.com/shirou/gopsutil/v4/process"
)

// memoryOf returns the resident set size of a process in bytes.
func memoryOf(ctx context.Context, p *ps.Process) int64 {
	if m, err := p.MemoryInfoWithContext(ctx); err == nil {
		return int64(m.RSS)
	}
	return 0
}

// readsPipe returns true: the system does not reveal what the stdin of a process is.
func readsPipe(int) bool { return true }
