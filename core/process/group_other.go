//go:build unix && !linux

package process

// memberRuns returns true: zombies cannot be distinguished on this platform, but init reaps them
// soon.
func memberRuns(int) bool { return true }

// awaitExit returns false: this platform cannot detect the death of a child without reaping it.
func awaitExit(int) bool { return false }
