//go:build !linux && !darwin && !freebsd && !windows

package doctor

import "errors"

// freeSpace is unknown on this system.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
