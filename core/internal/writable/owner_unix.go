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

// readOnly reports whether the file system at path is mounted read-only here.
func readOnly(path string) bool {
	const write = 2 // W_OK
	return errors.Is(syscall.Access(path, write), syscall.EROFS)
}

// ownGroup reports whether the group of a file is the user's private group. Systems with such groups
// have a umask of 002, which makes every clone writable by the group. root's group does not count.
func ownGroup(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() == 0 || int(st.Gid) != os.Getegid() {
		return false
	}
	users, err := os.ReadFile("/etc/passwd")
	groups, err2 := os.ReadFile("/etc/group")
	return err == nil && err2 == nil && isOwnGroup(string(users), string(groups), os.Geteuid(), int(st.Gid))
}

// isOwnGroup reports whether a group has the name of a user and no other user, according to the text
// of passwd(5) and group(5). A group that is defined elsewhere is not private.
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
