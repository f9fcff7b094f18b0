//go:build !linux

package journaltest

import "syscall"

// endsWithParent returns nil, because this system has no such feature: the process keeps running if
// the test is killed or panics.
func endsWithParent() *syscall.SysProcAttr { return nil }
