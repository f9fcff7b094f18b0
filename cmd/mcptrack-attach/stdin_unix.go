//go:build unix

package main

import (
	"os"
	"syscall"
)

// streams returns standard input and output. If they are pipes or sockets, as for every host, they do
// not block: otherwise each read would occupy the only thread until the runtime notices, which delays
// a call by up to a millisecond.
func streams() (in, out *os.File) { return stream(os.Stdin), stream(os.Stdout) }

func stream(f *os.File) *os.File {
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 || syscall.SetNonblock(int(f.Fd()), true) != nil {
		return f
	}
	return os.NewFile(f.Fd(), f.Name())
}
