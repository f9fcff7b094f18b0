//go:build unix

package vault

import (
	"io/fs"
	"os"
	"syscall"
)

// openFlags do not wait for the other end of a FIFO and make no terminal the
// controlling one, should a file have become either.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY

// identity is the number of a file on its file system, and how many names it has.
func identity(info fs.FileInfo) (inode, names uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino), uint64(st.Nlink)
	}
	return 0, 1
}
