//go:build !linux

package process

import "syscall"

// tree is the process group alone: without /proc the marked descendants outside of it
// cannot be found.
type tree struct {
	group *group
	nonce string
}

func (t *tree) alive() bool { return t.group.alive() }

func (t *tree) signal(s syscall.Signal) { t.group.signal(s) }
