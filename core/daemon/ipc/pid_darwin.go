package ipc

import "golang.org/x/sys/unix"

// peerPID returns the id of the process at the other end of a socket.
func peerPID(fd int) (int, error) { return unix.GetsockoptInt(fd, solLocal, unix.LOCAL_PEERPID) }
