//go:build !linux

package process

import "syscall"

// family is the group alone: without /proc the marked descendants outside of it
// cannot be found.
type family struct {
	group *group
	nonce string
}

func (f *family) alive() bool { return f.group.alive() }

func (f *family) signal(s syscall.Signal) { f.group.signal(s) }
