//go:build unix

package main

import (
	"os"
	"syscall"
)

// stream returns a stream of this process that does not block, if it is a pipe or socket, as hosts
// use them. A read that blocks would occupy the only thread until the runtime notices, which delays
// calls by a millisecond. Others may use the stream, so restore makes it block again.
func stream(f *os.File) (_ *os.File, restore func()) {
	fd := int(f.Fd())
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 || syscall.SetNonblock(fd, true) != nil {
		return f, func() {}
	}
	return os.NewFile(uintptr(fd), f.Name()), func() { _ = syscall.SetNonblock(fd, false) }
}
