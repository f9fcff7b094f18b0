package doctor

import "golang.org/x/sys/windows"

// freeSpace returns the number of bytes that the user can still write to the disk of a directory.
func freeSpace(dir string) (free uint64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	return free, windows.GetDiskFreeSpaceEx(path, &free, nil, nil)
}
