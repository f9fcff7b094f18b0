//go:build !linux

package process

// roomForTasks returns nil: the limit is seen when a process cannot be started.
func roomForTasks() error { return nil }

// taskLimit returns 0: not known.
func taskLimit() int { return 0 }

// memoryKills returns 0: the system does not say.
func memoryKills() int { return 0 }

// sacrifice does nothing: the system decides which process ends when memory runs out.
func sacrifice(int) {}
