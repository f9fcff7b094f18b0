//go:build linux || darwin || freebsd

package doctor

import "golang.org/x/sys/unix"

// freeSpace returns the number of bytes that the user can still write to the disk of a directory.
func freeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return uint64(max(st.Bavail, 0)) * uint64(st.Bsize), nil //nolint:unconvert,gosec // the types differ by system
}
