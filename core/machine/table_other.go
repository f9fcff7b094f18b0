//go:build !linux

package machine

import (
	"context"
	"os"
	"time"

	ps "github.com/shirou/gopsutil/v4/process"
)

// processes reads the process table. Processes that end meanwhile, or whose command line cannot be
// read, are omitted. The system does not reveal what the stdin of a process is.
func processes(ctx context.Context) ([]process, error) {
	found, err := ps.ProcessesWithContext(ctx)
	if err != nil {
		return nil, err
	}
	own, all := uint32(os.Getuid()), os.Getuid() <= 0 // root, or a system without user ids
	out := make([]process, 0, len(found))
	for _, p := range found {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		args, err := p.CmdlineSliceWithContext(ctx)
		if err != nil || len(args) == 0 {
			continue
		}
		if uids, err := p.UidsWithContext(ctx); !all && p.Pid != 1 && (err != nil || len(uids) == 0 || uids[0] != own) {
			continue
		}
		parent, err := p.PpidWithContext(ctx)
		if err != nil {
			continue
		}
		created, err := p.CreateTimeWithContext(ctx)
		if err != nil {
			continue
		}
		entry := process{pid: int(p.Pid), parent: int(parent), args: args, started: time.UnixMilli(created), stdio: true}
		if m, err := p.MemoryInfoWithContext(ctx); err == nil {
			entry.memory = int64(m.RSS)
		}
		out = append(out, entry)
	}
	return out, nil
}

// running reports whether p is still the same process.
func (p *process) running(ctx context.Context) bool {
	now, err := ps.NewProcessWithContext(ctx, int32(p.pid))
	if err != nil {
		return false
	}
	created, err := now.CreateTimeWithContext(ctx)
	if err != nil || !time.UnixMilli(created).Equal(p.started) {
		return false
	}
	status, err := now.StatusWithContext(ctx)
	return err != nil || len(status) == 0 || status[0] != ps.Zombie
}
