package sqlitelog

import (
	"io/fs"
	"os"
)

// checkOwner accepts every directory: access lists decide on Windows.
func checkOwner(string, fs.FileInfo) error { return nil }

// openPrivate opens a file of the data directory, or creates it.
func openPrivate(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}

// inode returns 0: without opening the file there is no number that identifies it.
func inode(fs.FileInfo) int64 { return 0 }
