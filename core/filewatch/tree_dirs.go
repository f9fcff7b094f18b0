package filewatch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// listChunk is how many entries of a directory are read at a time.
const listChunk = 1024

// watchedDirs are the directories of a tree that are watched. It belongs to one
// goroutine. Paths are relative to the root, with slashes; "." is the root.
type watchedDirs struct {
	root   string
	notify func() (*notifier, error)
	ignore func(path string, dir bool) bool
	most   int

	n       *notifier // nil: none could be made, or the last one died
	watched map[string]fs.FileInfo
	reason  string // why events cannot be relied upon, or empty
}

func (w *watchedDirs) events() <-chan fsnotify.Event {
	if w.n == nil {
		return nil
	}
	return w.n.events
}

func (w *watchedDirs) errors() <-chan error {
	if w.n == nil {
		return nil
	}
	return w.n.errors
}

// relative returns the path of an event, ok if it is of this tree.
func (w *watchedDirs) relative(name string) (rel string, ok bool) {
	rel, err := filepath.Rel(w.root, name)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// ignored reports whether an entry or a directory above it does not matter.
func (w *watchedDirs) ignored(rel string, dir bool) bool {
	if rel == "." {
		return false
	}
	for i := range len(rel) {
		if rel[i] == '/' && w.ignore(rel[:i], true) {
			return true
		}
	}
	return w.ignore(rel, dir)
}

// lstat looks at an entry without following it if it is a symbolic link, the root
// excepted.
func (w *watchedDirs) lstat(rel string) (fs.FileInfo, error) {
	if rel == "." {
		return os.Stat(w.root)
	}
	return os.Lstat(w.abs(rel))
}

func (w *watchedDirs) abs(rel string) string { return filepath.Join(w.root, filepath.FromSlash(rel)) }

// rebuild watches the whole tree by a new source. An old one has names that are
// out of date once a directory was renamed: its watches follow the directory
// wherever it went.
func (w *watchedDirs) rebuild() {
	w.drop()
	w.reason = ""
	n, err := w.notify()
	if err != nil {
		w.reason = err.Error()
		return
	}
	w.n, w.watched = n, make(map[string]fs.FileInfo)
	w.add(".")
}

// moved reports whether the root is not the directory that is watched.
func (w *watchedDirs) moved() bool {
	info, err := os.Stat(w.root)
	known := w.watched["."]
	return known == nil || err != nil || !os.SameFile(info, known)
}

// add watches a directory and those below it. Each is watched before it is listed,
// so that what is made in it meanwhile is either listed or gives an event.
func (w *watchedDirs) add(rel string) {
	for todo := []string{rel}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if w.enter(dir) {
			todo = append(todo, w.list(dir)...)
		}
	}
}

// enter watches one directory, anew if it is watched already: another directory
// may have the name by now. It reports whether there is one to list.
func (w *watchedDirs) enter(rel string) bool {
	info, err := w.lstat(rel)
	if err != nil || !info.IsDir() {
		if rel == "." {
			w.reason = fmt.Sprintf("%q is not there", w.root)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				w.reason = err.Error()
			}
		}
		return false
	}
	if old := w.watched[rel]; old != nil {
		if os.SameFile(old, info) {
			return true
		}
		w.forget(rel)
	}
	if len(w.watched) >= w.most {
		w.reason = fmt.Sprintf("more than %d directories", w.most)
		return false
	}
	switch err := w.n.add(w.abs(rel)); {
	case err == nil:
		w.watched[rel] = info
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false // gone since; its parent has an event for us
	case errors.Is(err, fs.ErrPermission):
		return true // what cannot be listed cannot be looked at either
	default:
		w.reason = watchFailure(w.abs(rel), err)
		return false
	}
	if kind := silentFS(w.abs(rel)); kind != "" {
		w.reason = fmt.Sprintf("%q is on a file system without reliable events (%s)", w.abs(rel), kind)
	}
	return true
}

// list returns the directories in a directory that matter.
func (w *watchedDirs) list(rel string) (dirs []string) {
	d, err := os.Open(w.abs(rel))
	if err != nil {
		return nil
	}
	defer d.Close()
	for {
		entries, err := d.ReadDir(listChunk)
		for _, e := range entries {
			if below := path.Join(rel, e.Name()); e.IsDir() && !w.ignore(below, true) {
				dirs = append(dirs, below)
			}
		}
		if err != nil || len(entries) == 0 { // io.EOF, or an error that the next look meets as well
			return dirs
		}
	}
}

// forget ends the watches of a directory and those below it. It reports whether
// there were any.
func (w *watchedDirs) forget(rel string) bool {
	if w.watched[rel] == nil {
		return false
	}
	for dir := range w.watched {
		if within(dir, rel) {
			_ = w.n.remove(w.abs(dir)) // it may be gone, and its watch with it
			delete(w.watched, dir)
		}
	}
	return true
}

// drop gives up the source of events.
func (w *watchedDirs) drop() {
	if w.n != nil {
		_ = w.n.close() // nothing is lost by it: whoever drops looks again
	}
	w.n, w.watched = nil, nil
}
