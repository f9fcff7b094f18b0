//go:build !linux

package process

import (
	"context"
	"log/slog"
	"syscall"
)

// Sweep does nothing here: there is no /proc to find marked processes in.
func Sweep(context.Context, *slog.Logger) (killed int, err error) { return 0, nil }

// KillMarked does nothing here, as Sweep does.
func KillMarked() {}

// Subreaper does nothing here: orphans go to init.
func Subreaper() error { return nil }

// ReapOrphans returns when ctx is done: there is nothing to reap here.
func ReapOrphans(ctx context.Context) { <-ctx.Done() }

func ownStart() uint64 { return 0 }

// tree is the process group alone: without /proc, marked descendants outside it cannot be found.
type tree struct {
	group *group
	nonce string
}

func (t *tree) alive() bool { return t.group.alive() }

func (t *tree) signal(s syscall.Signal) { t.group.signal(s) }

// roomForTasks returns nil: the limit shows when a process cannot be started.
func roomForTasks() error { return nil }

// taskLimit returns 0: unknown.
func taskLimit() int { return 0 }

// memoryKills returns 0: unknown.
func memoryKills() int { return 0 }

// sacrifice does nothing: the system decides which process to kill when memory runs out.
func sacrifice(int) {}
