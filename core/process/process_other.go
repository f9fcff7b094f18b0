//go:build !linux

package process

import (
	"context"
	"log/slog"
	"syscall"
)

// Sweep does nothing on this platform, which has no /proc to search for marked processes.
func Sweep(context.Context, *slog.Logger) (killed int, err error) { return 0, nil }

// KillMarked does nothing on this platform, which has no /proc to search for marked processes.
func KillMarked() {}

// Subreaper does nothing on this platform: orphaned processes are re-parented to init.
func Subreaper() error { return nil }

// ReapOrphans only waits until ctx is done: on this platform, init reaps orphans.
func ReapOrphans(ctx context.Context) { <-ctx.Done() }

// unread is unknown on this platform.
func unread(uintptr) int { return 0 }

func ownStart() uint64 { return 0 }

// tree contains only the child's process group: without /proc, marked descendants outside the group
// cannot be found.
type tree struct {
	group *group
	nonce string
}

func (t *tree) alive() bool { return t.group.alive() }

func (t *tree) signal(s syscall.Signal) { t.group.signal(s) }

// roomForTasks always returns nil on this platform: a limit is only detected when starting a
// process fails.
func roomForTasks() error { return nil }

// taskLimit returns 0 on this platform: the limit is unknown.
func taskLimit() int { return 0 }

// memoryKills returns 0 on this platform: the number is unknown.
func memoryKills() int { return 0 }

// sacrifice does nothing on this platform: the system chooses which process to kill when memory
// runs out.
func sacrifice(int) {}
