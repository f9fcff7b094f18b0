//go:build !linux

package process

import "context"

// Sweep does nothing on this platform: what a killed tracker leaves behind cannot be found.
func Sweep(context.Context) {}

// KillMarked does nothing on this platform.
func KillMarked() {}

func killDescendants(string) {}

func marked(env []string) (with []string, mark string) { return env, "" }

// unread is unknown on this platform.
func unread(uintptr) int { return 0 }

// sacrifice does nothing on this platform: the system chooses which process to kill when memory
// runs out.
func sacrifice(int) {}
