// Package writable checks whether another user could change a file. A file that contains commands
// or secrets is only as safe as its permissions.
package writable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// An Error describes how another user could change a file, and how to prevent that.
type Error struct {
	Path    string // the file or folder with unsafe permissions
	Problem string // what is wrong with Path, such as "can be changed by its group (mode 0664)"
	Hint    string // how to fix it; a command if one is enough
}

func (e *Error) Error() string { return printable.Line(e.Path, 256) + " " + e.Problem }

// ByOthers returns an [*Error] if a user other than the current user and root could change the file
// at path, either as its owner or through write permission for the file or its folder. A sticky bit
// on the folder does not help, because another user could create the file first. Write permission
// for the user's private group, which many systems create for each user, is allowed.
//
// If the file is a symbolic link, the folders of every link and of the target are also checked. If
// path is inside the folder root, the folders between them are also checked; for these a sticky bit
// is sufficient protection. root may be empty. On a read-only mount, such as a Kubernetes
// ConfigMap, any mode is allowed, but the owner is still checked.
//
// If the file does not exist, only its folder is checked. Nothing is checked on Windows, whose
// permissions differ.
func ByOthers(path, root string) error {
	if !hasOwners {
		return nil
	}
	folders, between, err := foldersOf(path, root)
	if err != nil {
		return uncheckable(path, err)
	}
	var first *Error
	var closable []string
	for _, p := range slices.Concat([]string{path}, folders, between) {
		info, err := os.Stat(p)
		if p == path && errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return uncheckable(p, err)
		}
		if slices.Contains(between, p) && info.Mode()&fs.ModeSticky != 0 && ownerOf(info) == 0 {
			continue
		}
		e := problem(p, info)
		switch {
		case e == nil:
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

// File checks an open file like ByOthers, based on its info, but does not check its folder.
func File(path string, info fs.FileInfo) error {
	if !hasOwners {
		return nil
	}
	if e := problem(path, info); e != nil {
		if e.Hint == "" {
			e.Hint = "chmod go-w " + printable.Shell(path)
		}
		return e
	}
	return nil
}

func uncheckable(path string, err error) error {
	return &Error{path, "cannot be checked for write access by other users: " + printable.Unnamed(err).Error(), "copy the file to a folder that you own"}
}

// maxLinks is the maximum number of symbolic links that are followed.
const maxLinks = 40

// foldersOf returns the folders through which the file at path is found, and the folders between it
// and root.
func foldersOf(path, root string) (folders, between []string, err error) {
	at := path
	for range maxLinks {
		dir := filepath.Dir(at)
		if !slices.ContainsFunc(folders, func(known string) bool { return sameFile(known, dir) }) {
			folders = append(folders, dir)
		}
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) && at == path {
			break
		} else if err != nil {
			return nil, nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			break
		}
		target, err := os.Readlink(at)
		if err != nil {
			return nil, nil, err
		}
		if at = target; !filepath.IsAbs(at) {
			at = filepath.Join(dir, target)
		}
	}
	inside, err := filepath.Rel(root, filepath.Dir(path))
	if root != "" && err == nil && filepath.IsLocal(inside) {
		for ; inside != "."; inside = filepath.Dir(inside) {
			between = append(between, filepath.Join(root, filepath.Dir(inside)))
		}
	}
	return folders, between, nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(x, y)
}

// problem checks one file or folder and returns an error, or nil if it is safe. The hint is empty
// if the current user can fix the problem with chmod.
func problem(path string, info fs.FileInfo) *Error {
	owner, mode := ownerOf(info), info.Mode()
	mine := owner == os.Geteuid()
	e := &Error{Path: path, Hint: "copy it to a folder that you own"}
	if info.IsDir() {
		e.Hint = "move the file to a folder that you own"
	}
	bits := mode.Perm()
	switch {
	case !mine && owner != 0:
		e.Problem = fmt.Sprintf("belongs to another user (uid %d)", owner)
		return e
	case bits&0o022 == 0, bits&0o002 == 0 && ownGroup(info), readOnly(path):
		return nil
	case mine && mode&fs.ModeSticky == 0:
		e.Hint = ""
	}
	who := "its group"
	if bits&0o002 != 0 {
		who = "every user"
	}
	if mode&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	e.Problem = fmt.Sprintf("can be changed by %s (mode %04o)", who, uint32(bits))
	return e
}
