package filewatch

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxLinks is how many symbolic links a path may lead through, as in Linux.
const maxLinks = 40

// A step is one lookup while resolving a path: the entry name in the directory dir,
// which is a real path without symbolic links.
type step struct {
	dir, name string
	link      bool // the entry is a symbolic link
}

// walk resolves an absolute path as the kernel would and returns its lookups in
// order. It calls enter before each lookup, so that a watch set there misses no
// later change of that entry. On an error (an entry is absent, say) the steps so
// far are returned with it; the last one is the lookup that failed.
func walk(path string, enter func(dir, name string)) ([]step, error) {
	root := func(p string) string { return filepath.VolumeName(p) + string(filepath.Separator) }
	cur := root(path)
	rest := split(path[len(filepath.VolumeName(path)):])
	var steps []step
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			cur = filepath.Dir(cur)
			continue
		}
		enter(cur, name)
		steps = append(steps, step{dir: cur, name: name})
		next := filepath.Join(cur, name)
		info, err := os.Lstat(next)
		if err != nil {
			return steps, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if len(rest) > 0 && !info.IsDir() {
				return steps, &fs.PathError{Op: "lookup", Path: next, Err: syscall.ENOTDIR}
			}
			cur = next
			continue
		}
		steps[len(steps)-1].link = true
		if links++; links > maxLinks {
			return steps, &fs.PathError{Op: "lookup", Path: next, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return steps, err
		}
		if filepath.IsAbs(target) {
			cur = root(target)
			target = target[len(filepath.VolumeName(target)):]
		}
		rest = append(split(target), rest...)
	}
	return steps, nil
}

// split returns the names of a path, without the empty ones and ".".
func split(path string) []string {
	var names []string
	for start, i := 0, 0; i <= len(path); i++ {
		if i < len(path) && !os.IsPathSeparator(path[i]) {
			continue
		}
		if name := path[start:i]; name != "" && name != "." {
			names = append(names, name)
		}
		start = i + 1
	}
	return names
}
