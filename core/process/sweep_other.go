//go:build !linux

package process

import (
	"context"
	"log/slog"
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
