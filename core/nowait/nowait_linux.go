//go:build !race

package nowait

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// awaitRead reads into p once there is something to read. It returns 0 at the end of the stream and after an error.
func awaitRead(raw syscall.RawConn, p []byte) (n int) {
	if raw == nil {
		return 0
	}
	_ = raw.Read(func(fd uintptr) bool {
		var errno syscall.Errno
		n, errno = transfer(unix.SYS_PREADV2, fd, p)
		return errno != syscall.EAGAIN
	})
	return n
}

func tryWrite(raw syscall.RawConn, p []byte) (n int) {
	if raw == nil {
		return 0
	}
	_ = raw.Write(func(fd uintptr) bool {
		n, _ = transfer(unix.SYS_PWRITEV2, fd, p)
		return true
	})
	return n
}

// transfer reads into p or writes p, and returns how many bytes that is, without waiting.
func transfer(call, fd uintptr, p []byte) (int, syscall.Errno) {
	v := unix.Iovec{Base: unsafe.SliceData(p)}
	v.SetLen(len(p))
	const current = ^uintptr(0) // the offset of streams
	n, _, errno := unix.RawSyscall6(call, fd, uintptr(unsafe.Pointer(&v)), 1, current, current, unix.RWF_NOWAIT)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
