//go:build darwin || freebsd

package ipc

import "golang.org/x/sys/unix"

// peerUID returns the user of the process at the other end of a socket.
func peerUID(fd int) (int, error) {
	cred, err := unix.GetsockoptXucred(fd, solLocal, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

const solLocal = 0 // SOL_LOCAL of sys/un.h
