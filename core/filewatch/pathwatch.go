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

// A pathWatch watches the directories that determine what a path resolves to. It is
// used by one goroutine.
type pathWatch struct {
	target string // absolute path
	notify func() (*notifier, error)

	n       *notifier         // nil: none could be made, or the last one died
	watched map[string]*watch // by directory; nil without a notifier
}

// A watch is one watched directory.
type watch struct {
	info fs.FileInfo // to notice that another directory got the name; nil: it could not be watched
	// names are the entries of interest, in lower case, as some file systems report
	// an entry in a different case than it was looked up by.
	names map[string]bool
}

// events returns the events of the current notifier, nil without one.
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

// relevant reports whether an event may have changed what the path resolves to or its
// content. Without this filter events in a busy directory on the path, such as the
// temporary directory, would delay every check until MaxWait.
func (w *pathWatch) relevant(ev fsnotify.Event) bool {
	name := filepath.Clean(ev.Name)
	if w.watched[name] != nil {
		return true // the directory itself was moved, removed or its mode changed
	}
	dir := w.watched[filepath.Dir(name)]
	return dir != nil && dir.names[strings.ToLower(filepath.Base(name))]
}

// follow brings the watches in line with where the path leads now. fresh says
// that a directory was not watched until this call: changes in it before gave no
// event. reason is why events cannot be relied upon, or empty.
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
	steps, _ := walk(w.target, func(dir, name string) { // the read returns the same error
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
		// Replacing a plain ancestor is rare, so the slow poll is enough for it. Links
		// and the file itself need events.
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

// enter adds a watch, even if there is one, because another directory may have got
// the name or the kernel may have dropped the watch.
func (w *pathWatch) enter(dir string, old *watch) (now *watch, fresh bool, err error) {
	now = &watch{names: make(map[string]bool)}
	now.info, _ = os.Stat(dir)
	fresh = old == nil || old.info == nil || now.info == nil || !os.SameFile(old.info, now.info)
	if fresh && old != nil {
		_ = w.n.remove(dir) // the watch follows the old directory wherever it went
	}
	err = w.n.add(dir)
	if err == nil {
		return now, fresh, nil
	}
	now.info = nil // not watched: the next successful add is fresh
	switch {
	case errors.Is(err, fs.ErrPermission):
		fresh = false // permanent; follow decides whether it matters
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		fresh, err = true, nil // replaced meanwhile; its parent gives an event
	}
	return now, fresh, err
}

func watchError(dir string, err error) string {
	return fmt.Sprintf("watch %q: %v", dir, err)
}

// drop closes a notifier that failed; the next follow makes a new one.
func (w *pathWatch) drop() {
	if w.n != nil {
		_ = w.n.close() // nothing is lost: the caller checks again
	}
	w.n, w.watched = nil, nil
}

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
