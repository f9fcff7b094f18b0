//go:build unix

package writable

import (
	"errors"
	"io/fs"
	"syscall"
)

const hasOwners = true

func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// readOnly reports whether the file system at path is mounted read-only.
func readOnly(path string) bool {
	const write = 2 // W_OK
	return errors.Is(syscall.Access(path, write), syscall.EROFS)
}
