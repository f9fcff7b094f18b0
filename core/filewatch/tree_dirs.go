package filewatch

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// listChunk is the number of directory entries that are read at a time.
const listChunk = 1024

// watchedDirs holds the watched directories of a tree. Only one goroutine may use it. Paths are
// relative to the root and use slashes; "." is the root.
type watchedDirs struct {
	root   string
	notify func() (*notifier, error)
	ignore func(path string, dir bool) bool
	most   int // maximum number of watched directories; see TreeOptions.MaxDirs

	n       *notifier              // nil if it could not be created or has failed
	watched map[string]fs.FileInfo // keyed by path; identifies the directory, to detect a replacement
	reason  string                 // why events are unreliable; empty if they are reliable
}

// relative converts the file name of an event to a path relative to the root. ok is false if the
// name is outside the tree.
func (w *watchedDirs) relative(name string) (rel string, ok bool) {
	rel, err := filepath.Rel(w.root, name)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// ignored reports whether an entry or one of its parent directories is ignored.
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

// lstat calls os.Lstat for an entry, but os.Stat for the root.
func (w *watchedDirs) lstat(rel string) (fs.FileInfo, error) {
	if rel == "." {
		return os.Stat(w.root)
	}
	return os.Lstat(w.abs(rel))
}

func (w *watchedDirs) abs(rel string) string { return filepath.Join(w.root, filepath.FromSlash(rel)) }

// rebuild watches the whole tree with a new event source. A watch follows a directory that is
// renamed, so the old source would report outdated paths.
func (w *watchedDirs) rebuild() {
	w.drop()
	w.reason = ""
	n, err := w.notify()
	if err != nil {
		w.reason = printable.Reason(err, 300)
		return
	}
	w.n, w.watched = n, make(map[string]fs.FileInfo)
	w.add(".")
}

// moved reports whether the root is no longer the directory that is being watched.
func (w *watchedDirs) moved() bool {
	info, err := os.Stat(w.root)
	known := w.watched["."]
	return known == nil || err != nil || !os.SameFile(info, known)
}

// add watches a directory and its subdirectories. Each directory is watched before it is listed, so
// that an entry created in the meantime is either listed or causes an event.
func (w *watchedDirs) add(rel string) {
	for todo := []string{rel}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if w.enter(dir) {
			todo = append(todo, w.list(dir)...)
		}
	}
}

// enter watches one directory. If another directory has been moved to this path, enter replaces the
// watch. It reports whether the caller must list the directory.
func (w *watchedDirs) enter(rel string) bool {
	info, err := w.lstat(rel)
	if err != nil || !info.IsDir() {
		if rel == "." {
			w.reason = fmt.Sprintf("%q does not exist", w.root)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				w.reason = printable.Reason(err, 300)
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
	case isMissing(err):
		return false // removed in the meantime; its parent reports an event
	case errors.Is(err, fs.ErrPermission):
		return true // listing the directory will fail, too
	default:
		w.reason = watchError(w.abs(rel), err)
		return false
	}
	if silentFS(w.abs(rel)) != "" {
		w.reason = silent(w.abs(rel))
	}
	return true
}

// list returns the subdirectories of a directory that are not ignored.
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
		if err != nil || len(entries) == 0 { // io.EOF, or an error that the receiver will encounter, too
			return dirs
		}
	}
}

// forget removes the watches on a directory and its subdirectories. It reports whether there were
// any.
func (w *watchedDirs) forget(rel string) bool {
	if w.watched[rel] == nil {
		return false
	}
	for dir := range w.watched {
		if within(dir, rel) {
			_ = w.n.remove(w.abs(dir)) // fails if the directory was removed
			delete(w.watched, dir)
		}
	}
	return true
}

// drop closes the event source.
func (w *watchedDirs) drop() {
	w.n.stop()
	w.n, w.watched = nil, nil
}

// dirtyPaths holds the paths that may have changed and have not been delivered yet, in one burst.
type dirtyPaths struct {
	debounce
	limit int // maximum number of paths, before all is set

	paths map[string]struct{}
	all   bool // anything may have changed; paths is then empty
}

// kick records that one path may have changed.
func (d *dirtyPaths) kick(path string, now time.Time) {
	if !d.all && d.paths == nil {
		d.paths = make(map[string]struct{})
	}
	if !d.all {
		d.paths[path] = struct{}{}
	}
	if d.all || len(d.paths) > d.limit {
		d.kickAll(now)
		return
	}
	d.debounce.kick(now)
}

// kickAll records that anything may have changed.
func (d *dirtyPaths) kickAll(now time.Time) {
	d.all, d.paths = true, nil
	d.debounce.kick(now)
}

// take returns what may have changed as a batch if the burst has ended at now, and nil otherwise.
func (d *dirtyPaths) take(now time.Time) *Batch {
	if !d.pending() || d.due().After(now) {
		return nil
	}
	b := &Batch{All: d.all, Paths: slices.Sorted(maps.Keys(d.paths)), SeenAt: d.first}
	d.all, d.paths = false, nil
	d.reset()
	return b
}

// merge combines a batch that has not been received yet, or nil, with a newer one. If the
// result has more paths than limit, All is set instead.
func merge(old, now *Batch, limit int) *Batch {
	if old == nil {
		return now
	}
	m := &Batch{All: old.All || now.All, SeenAt: old.SeenAt}
	if now.SeenAt.Before(m.SeenAt) {
		m.SeenAt = now.SeenAt
	}
	if !m.All {
		set := make(map[string]struct{}, len(old.Paths)+len(now.Paths))
		for _, path := range slices.Concat(old.Paths, now.Paths) {
			set[path] = struct{}{}
		}
		if m.All = len(set) > limit; !m.All {
			m.Paths = slices.Sorted(maps.Keys(set))
		}
	}
	return m
}

// within reports whether path equals dir or is under it; "." is the root.
func within(path, dir string) bool {
	return dir == "." || path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
