package vault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/glob"
)

// scanner reads files and folders from disk and converts them to entries. It is safe for concurrent
// use.
type scanner struct {
	disk  *disk
	rules rules
	md    *markdown
	most  int // maximum number of entries in the vault
}

// scan reads paths and everything under them; "" is the whole vault. It reuses entries from old for
// files with the same modification time and size, unless paths contains the file itself, which
// means that an event reported a change. retry lists the paths that are in a transient state, whose
// end may not cause an event.
func (s *scanner) scan(ctx context.Context, paths []string, old *snapshot) (scans []scanned, retry []string, err error) {
	all := make(coverage, len(paths))
	for _, p := range paths {
		all[p] = struct{}{}
	}
	var work errgroup.Group
	work.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	walks := make([]*walk, 0, len(paths))
	for _, p := range all.reduce() {
		w := &walk{scanner: s, ctx: ctx, old: old, work: &work, from: p}
		w.room = s.most - len(old.entries) + len(old.below(p))
		w.begin()
		w.readLate()
		walks = append(walks, w)
		err = cmp.Or(err, w.err)
	}
	_ = work.Wait() // the jobs never return an error
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, w := range walks {
		l := scanned{path: w.from}
		for _, r := range w.results {
			if r.entry != nil {
				l.entries = append(l.entries, r.entry)
			}
			if r.retry {
				retry = append(retry, r.path)
			}
		}
		scans = append(scans, l)
	}
	return scans, retry, nil
}

// walk holds the state of one scan of a path and everything under it.
type walk struct {
	*scanner
	ctx  context.Context
	old  *snapshot
	work *errgroup.Group
	from string

	// results are allocated separately, so that concurrent reads can fill them in without a lock.
	results []*result
	late    []*result // notes to be read together
	room    int       // number of entries that may still be added to the vault
	err     error     // error from reading the root folder; nil if it was readable
}

// result describes the entry found at a path.
type result struct {
	path  string
	entry *entry // nil if nothing exists at the path
	retry bool   // the state is transient: scan the path again
}

func (w *walk) add(p string, e *entry, retry bool) *result {
	r := &result{p, e, retry}
	w.results = append(w.results, r)
	return r
}

// begin scans the starting path of the walk.
func (w *walk) begin() {
	p := w.from
	if p == "" {
		w.folder("")
		return
	}
	if in := parentOf(p); in != "" && checkPath(in) != nil {
		return // inside a skipped folder
	}
	info, err := w.disk.lstat(p)
	if transient(err) {
		w.keep(p)
	}
	if err != nil || w.rules.hides(p, info.IsDir()) {
		return // removed, behind a symbolic link, or ignored
	}
	w.entry(p, info, true)
}

// entry scans one entry. If read is true, a file is read even if its modification time and size are
// unchanged.
func (w *walk) entry(p string, info fs.FileInfo, read bool) {
	have := w.old.at(p)
	if w.room--; w.room < 0 {
		w.add(p, skipped(p, errTooMany), false)
		return
	}
	if info.IsDir() {
		switch {
		case !goodName(path.Base(p)):
			w.add(p, skipped(p, errName), false)
			return
		case have != nil && have.dir:
			w.add(p, have, false)
		default:
			w.add(p, folder(p), false)
		}
		w.folder(p)
		return
	}
	if err := w.disk.check(p, info); err != nil {
		// Some programs briefly create a hard link while they save a file, and removing the link
		// causes no event for this name.
		w.add(p, skipped(p, err), err == errHardLink)
		return
	}
	switch {
	case !read && have.unchanged(info):
		w.add(p, have, false)
	case !isNote(p):
		w.add(p, file(p, info), false)
	default:
		if w.late = append(w.late, w.add(p, nil, false)); len(w.late) == readTogether {
			w.readLate()
		}
	}
}

// readTogether is how many notes one goroutine reads, one after another.
const readTogether = 64

// readLate starts a goroutine that reads w.late.
func (w *walk) readLate() {
	late := w.late
	w.late = nil
	w.work.Go(func() error {
		in := w.disk.reader()
		defer in.close()
		for _, r := range late {
			if w.ctx.Err() == nil {
				w.read(in, r, w.old.at(r.path))
			}
		}
		return nil
	})
}

// folder scans the entries of a folder.
func (w *walk) folder(p string) {
	if w.ctx.Err() != nil || w.err != nil {
		return
	}
	infos, err := w.disk.list(p)
	switch {
	case err == nil, errors.Is(err, fs.ErrNotExist) && p != "":
	case p == "":
		w.err = fmt.Errorf("read the vault: %w", err)
		return
	case transient(err):
		w.keep(p)
		return
	default:
		w.add(p+"/", skipped(p+"/", err), false) // the folder exists, but its entries are unknown
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name() < infos[j].Name() })
	for _, info := range infos {
		if at := path.Join(p, info.Name()); !w.rules.ignored(at, info.IsDir()) {
			w.entry(at, info, false)
		}
	}
}

// keep retains the old entries at and under a path until the path can be read again.
func (w *walk) keep(p string) {
	w.results = slices.DeleteFunc(w.results, func(r *result) bool { return r.path == p })
	w.add(p, w.old.at(p), true)
	for _, e := range w.old.below(p) {
		w.add(e.path, e, false)
	}
}

// transient reports whether an error may disappear without a change to the file, for example
// because too many files are open or the file was replaced during the access.
func transient(err error) bool {
	return slices.ContainsFunc([]error{errMoved, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.EAGAIN},
		func(e error) bool { return errors.Is(err, e) })
}

// read creates the entry of a note.
func (w *walk) read(in *fileReader, r *result, have *entry) {
	src, info, err := in.read(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case transient(err):
		r.entry, r.retry = have, true
		return
	case err != nil:
		r.entry = skipped(r.path, err)
		return
	}
	r.entry = makeNote(r.path, info, src, w.md.parse(r.path, src), time.Now())
	if have != nil && have.note != nil && have.note.digest == r.entry.note.digest {
		// The text is unchanged, so reuse the facts extracted earlier.
		n := *have.note
		n.modified = r.entry.note.modified
		r.entry.note = &n
	}
}

// maxDepth is the maximum nesting depth; more deeply nested folders are ignored.
const maxDepth = 64

// rules determine, from its path, whether an entry is part of the vault.
type rules struct{ globs []string }

// ignored reports whether an entry in a folder of the vault is excluded because it is hidden
// (.obsidian, .trash, .git), is a temporary file of an editor, or matches a glob.
func (r rules) ignored(p string, dir bool) bool {
	name := path.Base(p)
	if strings.HasPrefix(name, ".") || strings.Count(p, "/") >= maxDepth {
		return true
	}
	if !dir && scratch(name) {
		return true
	}
	return slices.ContainsFunc(r.globs, func(g string) bool {
		return glob.Match(g, p) || !strings.Contains(g, "/") && glob.Match(g, name)
	})
}

// scratch reports whether a file is a temporary file of an editor or browser.
func scratch(name string) bool {
	switch path.Ext(name) {
	case ".tmp", ".swp", ".swo", ".swx", ".vsctmp", ".crdownload", ".part":
		return true
	}
	return name == "4913" || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// hides reports whether a path or one of its parent folders is ignored.
func (r rules) hides(p string, dir bool) bool {
	for i := range len(p) {
		if p[i] == '/' && r.ignored(p[:i], true) {
			return true
		}
	}
	return r.ignored(p, dir)
}

// printableName reports whether a name is valid UTF-8 without control characters.
func printableName(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl)
}

// goodName reports whether the name of a file or folder allows it to be part of the vault: the name
// must be printable and allowed in the path of a URI.
func goodName(name string) bool { return printableName(name) && !strings.Contains(name, `\`) }

// isNote reports whether a path has the file extension of notes.
func isNote(p string) bool { return strings.EqualFold(path.Ext(p), ".md") }
