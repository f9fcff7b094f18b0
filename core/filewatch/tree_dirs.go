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
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/mcptrack/mcptrack/core/printable"
)

// listChunk is how many entries of a directory are read at a time.
const listChunk = 1024

// watchedDirs holds the watched directories of a tree. It is used by one goroutine.
// Paths are relative to the root, with slashes; "." is the root.
type watchedDirs struct {
	root   string
	notify func() (*notifier, error)
	ignore func(path string, dir bool) bool
	most   int // watched directories; see TreeOptions.MaxDirs

	n       *notifier              // nil: it could not be made, or it failed
	watched map[string]fs.FileInfo // by path, to notice that another directory got the name
	reason  string                 // why events are unreliable, or empty
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

// relative converts the name in an event to a path relative to the root; ok is false if the
// name is outside the tree.
func (w *watchedDirs) relative(name string) (rel string, ok bool) {
	rel, err := filepath.Rel(w.root, name)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// ignored reports whether an entry or a directory above it is ignored.
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

// lstat is os.Lstat for an entry, but os.Stat for the root.
func (w *watchedDirs) lstat(rel string) (fs.FileInfo, error) {
	if rel == "." {
		return os.Stat(w.root)
	}
	return os.Lstat(w.abs(rel))
}

func (w *watchedDirs) abs(rel string) string { return filepath.Join(w.root, filepath.FromSlash(rel)) }

// rebuild watches the whole tree with a new source. Watches follow a renamed
// directory, so the old source would report outdated names.
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

// moved reports whether the root is no longer the watched directory.
func (w *watchedDirs) moved() bool {
	info, err := os.Stat(w.root)
	known := w.watched["."]
	return known == nil || err != nil || !os.SameFile(info, known)
}

// add watches a directory and those below it. Each is watched before it is listed, so
// that an entry created meanwhile is either listed or gives an event.
func (w *watchedDirs) add(rel string) {
	for todo := []string{rel}; len(todo) > 0; {
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if w.enter(dir) {
			todo = append(todo, w.list(dir)...)
		}
	}
}

// enter watches one directory; if another directory has got its name, it replaces the watch.
// It reports whether the caller has to list the directory.
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
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false // removed meanwhile; its parent gives an event
	case errors.Is(err, fs.ErrPermission):
		return true // listing it fails as well
	default:
		w.reason = watchError(w.abs(rel), err)
		return false
	}
	if kind := silentFS(w.abs(rel)); kind != "" {
		w.reason = fmt.Sprintf("%q is on a file system without reliable events (%s)", w.abs(rel), kind)
	}
	return true
}

// list returns the directories in a directory that are not ignored.
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
		if err != nil || len(entries) == 0 { // io.EOF, or an error that the receiver gets as well
			return dirs
		}
	}
}

// forget removes the watches of a directory and those below it. It reports whether
// there were any.
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

// drop closes the source of events.
func (w *watchedDirs) drop() {
	if w.n != nil {
		_ = w.n.close() // nothing is lost: a batch for everything follows
	}
	w.n, w.watched = nil, nil
}

// dirtyPaths holds the paths that may have changed and were not delivered yet. Each
// has its own burst, so that a file that is written continuously delays no other.
// Zero times mean the same as in a debounce.
type dirtyPaths struct {
	quiet, most time.Duration // of each burst; see debounce
	limit       int           // of paths, and of bursts that begin within stormWindow; beyond it, all replaces the paths

	paths map[string]*debounce
	all   debounce // pending: anything may have changed, and paths is empty

	window time.Time // start of the current stormWindow
	begun  int       // bursts that began in it
}

const (
	stormWindow = time.Second
	// shortGap and longGap are the least time between two batches, at low and high
	// rates of change, so that bursts that end at almost the same time share a batch.
	shortGap = 40 * time.Millisecond
	longGap  = 250 * time.Millisecond
)

// kick records a possible change of one path.
func (d *dirtyPaths) kick(path string, now time.Time) {
	if d.all.pending() {
		d.all.kick(now)
		return
	}
	burst := d.paths[path]
	if burst == nil {
		if now.Sub(d.window) >= stormWindow {
			d.window, d.begun = now, 0
		}
		if d.begun++; d.begun > d.limit || len(d.paths) >= d.limit {
			d.kickAll(now)
			return
		}
		if d.paths == nil {
			d.paths = make(map[string]*debounce)
		}
		burst = &debounce{quiet: d.quiet, most: d.most}
		d.paths[path] = burst
	}
	burst.kick(now)
}

// kickAll records that anything may have changed. It replaces the bursts of single
// paths and inherits the earliest start, so that MaxWait still holds.
func (d *dirtyPaths) kickAll(now time.Time) {
	if !d.all.pending() {
		d.all = debounce{quiet: d.quiet, most: d.most}
		for _, burst := range d.paths {
			if d.all.first.IsZero() || burst.first.Before(d.all.first) {
				d.all.first = burst.first
			}
		}
		clear(d.paths)
	}
	d.all.kick(now)
}

// due returns when the next burst ends if nothing else happens; ok is false without
// one.
func (d *dirtyPaths) due() (at time.Time, ok bool) {
	if d.all.pending() {
		return d.all.due(), true
	}
	for _, burst := range d.paths {
		if t := burst.due(); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// gap returns the least time between two batches at present.
func (d *dirtyPaths) gap() time.Duration {
	if d.begun > d.limit/10 {
		return longGap
	}
	return shortGap
}

// take removes the paths that are due at now and returns them as a batch, nil if there are
// none.
func (d *dirtyPaths) take(now time.Time) *Batch {
	if d.all.pending() {
		if d.all.due().After(now) {
			return nil
		}
		b := &Batch{All: true, SeenAt: d.all.first}
		d.all.reset()
		return b
	}
	b := &Batch{}
	for path, burst := range d.paths {
		if burst.due().After(now) {
			continue
		}
		if b.SeenAt.IsZero() || burst.first.Before(b.SeenAt) {
			b.SeenAt = burst.first
		}
		b.Paths = append(b.Paths, path)
		delete(d.paths, path)
	}
	if len(b.Paths) == 0 {
		return nil
	}
	slices.Sort(b.Paths)
	return b
}

// merge joins a batch that was not received yet with a newer one; either may be nil. More
// paths than limit become a batch for everything.
func merge(old, now *Batch, limit int) *Batch {
	if old == nil || now == nil {
		if old == nil {
			return now
		}
		return old
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

// within reports whether path is dir or below it; "." is the root.
func within(path, dir string) bool {
	return dir == "." || path == dir || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}
