//go:build unix

package vault

import (
	"io/fs"
	"os"
	"syscall"
)

// openFlags make opening safe if the file has become a FIFO or a terminal: open does not wait for a
// writer, and the terminal does not become the controlling terminal.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY

// identity returns the inode number of a file, and its number of hard links.
func identity(info fs.FileInfo) (inode, names uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino), uint64(st.Nlink)
	}
	return 0, 1
}
