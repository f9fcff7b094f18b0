package filewatch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"github.com/mcptrack/mcptrack/core/printable"
)

// A pathWatch watches every directory that determines what a path resolves to. Only one goroutine
// may use it.
type pathWatch struct {
	target string // absolute path
	notify func() (*notifier, error)

	n       *notifier         // nil if it could not be created or has failed
	watched map[string]*watch // keyed by directory; nil if n is nil
}

// A watch describes one watched directory.
type watch struct {
	info fs.FileInfo // identifies the directory, to detect a replacement; nil if watching failed
	// names are the relevant entries, in lower case, because some file systems report an entry in a
	// different case than the one used for the lookup.
	names map[string]bool
}

// events returns the event channel of the current notifier, or nil if there is none.
func (w *pathWatch) events() <-chan fsnotify.Event {
	if w.n == nil {
		return nil
	}
	return w.n.events
}

func (w *pathWatch) errors() <-chan error {
	if w.n == nil {
		return nil
	}
	return w.n.errors
}

// relevant reports whether an event may have changed the content of the path or what the path
// resolves to. Without this filter, events in a busy directory on the path, such as the temporary
// directory, would delay every check until MaxWait.
func (w *pathWatch) relevant(ev fsnotify.Event) bool {
	name := filepath.Clean(ev.Name)
	if w.watched[name] != nil {
		return true // the directory itself was moved or removed, or its mode changed
	}
	dir := w.watched[filepath.Dir(name)]
	return dir != nil && dir.names[strings.ToLower(filepath.Base(name))]
}

// follow updates the watches to match what the path resolves to now. fresh means that some
// directory was not watched before this call, so earlier changes in it caused no event. reason is
// why events are unreliable; it is empty if they are reliable.
func (w *pathWatch) follow() (fresh bool, reason string) {
	if w.n == nil {
		n, err := w.notify()
		if err != nil {
			return true, printable.Reason(err, 300)
		}
		w.n, w.watched = n, make(map[string]*watch)
	}
	before := w.watched
	w.watched = make(map[string]*watch, len(before))
	failed := make(map[string]error)
	steps, _ := walk(w.target, func(dir, name string) { // reading the file returns the same error
		now := w.watched[dir]
		if now == nil {
			var added bool
			now, added, failed[dir] = w.enter(dir, before[dir])
			fresh = fresh || added
			w.watched[dir] = now
		}
		now.names[strings.ToLower(name)] = true
	})
	for dir := range before {
		if w.watched[dir] == nil {
			_ = w.n.remove(dir) // fails if the directory was removed
		}
	}
	for i, s := range steps {
		// An ordinary ancestor directory is rarely replaced, so slow polling is enough for it.
		// Symbolic links and the file itself need events.
		if !s.link && i < len(steps)-1 {
			if err := failed[s.dir]; err != nil && !errors.Is(err, fs.ErrPermission) {
				reason = watchError(s.dir, err)
			}
			continue
		}
		if err := failed[s.dir]; err != nil {
			reason = watchError(s.dir, err)
		} else if kind := silentFS(s.dir); kind != "" {
			reason = fmt.Sprintf("%q is on a file system without reliable events (%s)", s.dir, kind)
		}
	}
	return fresh, reason
}

// enter adds a watch for a directory. It does so even if a watch exists, because another directory
// may have been moved to this path or the kernel may have dropped the watch.
func (w *pathWatch) enter(dir string, old *watch) (now *watch, fresh bool, err error) {
	now = &watch{names: make(map[string]bool)}
	now.info, _ = os.Stat(dir)
	fresh = old == nil || old.info == nil || now.info == nil || !os.SameFile(old.info, now.info)
	if fresh && old != nil {
		_ = w.n.remove(dir) // the old watch follows the old directory, wherever it was moved
	}
	err = w.n.add(dir)
	if err == nil {
		return now, fresh, nil
	}
	now.info = nil // not watched: the next successful add counts as fresh
	switch {
	case errors.Is(err, fs.ErrPermission):
		fresh = false // a permanent error; follow decides whether it matters
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		fresh, err = true, nil // replaced in the meantime; its parent reports an event
	}
	return now, fresh, err
}

func watchError(dir string, err error) string {
	return fmt.Sprintf("watch %q: %v", dir, err)
}

// drop closes a notifier that has failed; the next call to follow creates a new one.
func (w *pathWatch) drop() {
	if w.n != nil {
		_ = w.n.close() // no change is lost: the caller checks again
	}
	w.n, w.watched = nil, nil
}

// maxLinks is the maximum number of symbolic links followed while resolving a path, as in Linux.
const maxLinks = 40

// A step is one lookup during the resolution of a path: the entry name in the directory dir, whose
// path contains no symbolic links.
type step struct {
	dir, name string
	link      bool // the entry is a symbolic link
}

// walk resolves an absolute path as the kernel would and returns its lookups in order. It calls
// enter before each lookup, so that a watch added by enter detects every later change to that
// entry. If a lookup fails, for example because an entry is absent, walk returns the error together
// with the steps so far, including the failed one.
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

// split returns the elements of a path, without empty elements and ".".
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
