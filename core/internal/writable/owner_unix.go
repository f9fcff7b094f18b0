//go:build unix

package writable

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const hasOwners = true

func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// readOnly reports whether the file system that contains path is mounted read-only.
func readOnly(path string) bool {
	const write = 2 // value of W_OK
	return errors.Is(syscall.Access(path, write), syscall.EROFS)
}

// ownGroup reports whether a file's group is the user's private group. Systems with private groups
// set the umask to 002, so that every cloned repository is writable by the group. The group of root
// is never treated as private.
func ownGroup(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() == 0 || int(st.Gid) != os.Getegid() {
		return false
	}
	users, err := os.ReadFile("/etc/passwd")
	groups, err2 := os.ReadFile("/etc/group")
	return err == nil && err2 == nil && isOwnGroup(string(users), string(groups), os.Geteuid(), int(st.Gid))
}

// isOwnGroup reports whether a group has the same name as the user and no other members. users and
// groups are the contents of /etc/passwd and /etc/group. A group that is defined elsewhere is not
// treated as private.
func isOwnGroup(users, groups string, uid, gid int) bool {
	name := ""
	for line := range strings.Lines(users) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || f[3] != strconv.Itoa(gid) {
			continue
		}
		if f[2] != strconv.Itoa(uid) {
			return false
		}
		name = f[0]
	}
	for line := range strings.Lines(groups) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || f[2] != strconv.Itoa(gid) {
			continue
		}
		members := strings.FieldsFunc(f[3], func(r rune) bool { return r == ',' })
		return name != "" && f[0] == name && !slices.ContainsFunc(members, func(m string) bool { return m != name })
	}
	return false
}
