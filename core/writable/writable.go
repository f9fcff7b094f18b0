// Package writable says whether somebody else could change a file: one that names commands to
// run or holds secrets is worth no more than the permissions that protect it.
package writable

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// An Error says who else could change a file, and what to do about it.
type Error struct {
	Path    string // the file or folder at fault
	Problem string // follows the path in a sentence: "can be changed by group (mode 0664)"
	Hint    string // what to do: a command, where one helps
}

func (e *Error) Error() string { return printable.Line(e.Path, 256) + " " + e.Problem }

// ByOthers returns an [Error] if a user other than this one and root could change the file at
// path, because of who owns it or who may write to it or to its folder. A sticky folder is no
// protection: another user can put a file there before the owner does.
//
// The folder is the one that path names and, behind a symbolic link, also the one of the target.
// If path lies below the folder root, all folders from the file up to root are checked; "" stands
// for no such folder. What is mounted read-only cannot be changed, whatever its mode says: a
// ConfigMap of Kubernetes lies in a folder of mode 1777.
//
// A file that does not exist is an error of package os. On Windows, whose permissions have
// another form, nothing is checked.
func ByOthers(path, root string) error {
	if _, err := os.Stat(path); err != nil || !hasOwners {
		return err
	}
	var first *Error
	var closable []string
	for _, p := range append([]string{path}, folders(path, root)...) {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		e := problem(p, info)
		switch {
		case e == nil || readOnly(p):
			continue
		case e.Hint != "":
			return e
		case first == nil:
			first = e
		}
		closable = append(closable, printable.Shell(p))
	}
	if first == nil {
		return nil
	}
	first.Hint = "chmod go-w " + strings.Join(closable, " ")
	return first
}

// folders returns the folders that decide which file a path leads to, each once.
func folders(path, root string) (dirs []string) {
	add := func(dir string) {
		if !slices.ContainsFunc(dirs, func(known string) bool { return sameFile(known, dir) }) {
			dirs = append(dirs, dir)
		}
	}
	add(filepath.Dir(path))
	if inside, err := filepath.Rel(root, path); root != "" && err == nil && filepath.IsLocal(inside) {
		for dir := filepath.Dir(inside); dir != "."; dir = filepath.Dir(dir) {
			add(filepath.Join(root, filepath.Dir(dir)))
		}
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		add(filepath.Dir(target))
	}
	return dirs
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// problem returns what is wrong with one file or folder; nil: nothing. Without a hint, a chmod by
// this user mends it.
func problem(path string, info fs.FileInfo) *Error {
	owner, mode := ownerOf(info), info.Mode()
	mine := owner == os.Geteuid()
	e := &Error{Path: path, Hint: "copy it to a folder of your own"}
	if info.IsDir() {
		e.Hint = "move the file to a folder of your own"
	}
	switch {
	case !mine && owner != 0:
		e.Problem = fmt.Sprintf("belongs to another user (uid %d)", owner)
		return e
	case mode.Perm()&0o022 == 0:
		return nil
	case mine && mode&fs.ModeSticky == 0:
		e.Hint = ""
	}
	who, bits := "its group", mode.Perm()
	if bits&0o002 != 0 {
		who = "every user"
	}
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	e.Problem = fmt.Sprintf("can be changed by %s (mode %04o)", who, uint32(bits))
	return e
}
