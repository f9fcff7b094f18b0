//go:build !linux

package vault

import "time"

var began = time.Now()

// threadTime is the time since the start.
func threadTime() time.Duration { return time.Since(began) }
