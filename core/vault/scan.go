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
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// scanner looks at the disk and says what is there. It may be used by several
// goroutines, but a look is one.
type scanner struct {
	disk  *disk
	rules rules
	md    *markdown
	most  int // entries
}

// look says what is at paths and below them; "" is the whole vault. Entries of old
// are taken over where the file is the same by its time and size, unless a path
// names the file itself: then somebody saw it change. again are paths that were in
// a state that may pass without any event.
func (s *scanner) look(ctx context.Context, paths []string, old *snapshot) (looks []found, again []string, err error) {
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
		walks = append(walks, w)
		err = cmp.Or(err, w.err)
	}
	_ = work.Wait() // no job returns an error
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, w := range walks {
		l := found{path: w.from}
		for _, r := range w.results {
			if r.entry != nil {
				l.entries = append(l.entries, r.entry)
			}
			if r.again {
				again = append(again, r.path)
			}
		}
		looks = append(looks, l)
	}
	return looks, again, nil
}

// walk is one look at one path.
type walk struct {
	*scanner
	ctx  context.Context
	old  *snapshot
	work *errgroup.Group
	from string

	// results are in places of their own, so that the jobs that fill them in need
	// no lock.
	results []*result
	room    int
	err     error // the vault itself cannot be read
}

// result is what is at a path: an entry, or nothing any more.
type result struct {
	path  string
	entry *entry
	again bool // it may be another one soon
}

func (w *walk) found(p string, e *entry, again bool) {
	w.results = append(w.results, &result{p, e, again})
}

// begin looks at the path that the walk begins with.
func (w *walk) begin() {
	p := w.from
	if p == "" {
		w.folder("")
		return
	}
	if in := parentOf(p); in != "" && checkPath(in) != nil {
		return // below a folder that is left out
	}
	info, err := w.disk.lstat(p)
	if passing(err) {
		w.keep(p)
	}
	if err != nil || w.rules.hides(p, info.IsDir()) {
		return // gone, or on the other side of a link, or none of ours
	}
	w.entry(p, info, true)
}

// entry looks at one entry. read says that a file is to be read whatever its time
// and size say.
func (w *walk) entry(p string, info fs.FileInfo, read bool) {
	have := w.old.at(p)
	if w.room--; w.room < 0 {
		w.found(p, leftOut(p, errTooMany), false)
		return
	}
	if info.IsDir() {
		switch {
		case !goodName(path.Base(p)):
			w.found(p, leftOut(p, errName), false)
			return
		case have != nil && have.dir:
			w.found(p, have, false)
		default:
			w.found(p, folder(p), false)
		}
		w.folder(p)
		return
	}
	if err := w.disk.check(p, info); err != nil {
		// Programs link for a moment while they save, and that it is over is no
		// event of this name.
		w.found(p, leftOut(p, err), err == errHardLink)
		return
	}
	switch {
	case !read && have.unchanged(info):
		w.found(p, have, false)
	case !isNote(p):
		w.found(p, file(p, info), false)
	default:
		w.found(p, nil, false)
		place := w.results[len(w.results)-1]
		w.work.Go(func() error {
			w.read(place, have)
			return nil
		})
	}
}

// folder looks at what is in a folder.
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
	case passing(err):
		w.keep(p)
		return
	default:
		w.found(p+"/", leftOut(p+"/", err), false) // the folder is there; what is in it nobody knows
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return strings.Compare(a.Name(), b.Name()) })
	for _, info := range infos {
		if at := path.Join(p, info.Name()); !w.rules.ignored(at, info.IsDir()) {
			w.entry(at, info, false)
		}
	}
}

// keep leaves what is known of a path and below it as it is, until it can be read.
func (w *walk) keep(p string) {
	w.results = slices.DeleteFunc(w.results, func(r *result) bool { return r.path == p })
	w.found(p, w.old.at(p), true)
	for _, e := range w.old.below(p) {
		w.found(e.path, e, false)
	}
}

// passing reports whether an error says nothing about the file: too many are open,
// say, or it was saved anew while we looked.
func passing(err error) bool {
	return slices.ContainsFunc([]error{errMoved, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO, syscall.EAGAIN},
		func(e error) bool { return errors.Is(err, e) })
}

// read makes the entry of a note.
func (w *walk) read(r *result, have *entry) {
	if w.ctx.Err() != nil {
		return
	}
	src, info, err := w.disk.read(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case passing(err):
		r.entry, r.again = have, true
		return
	case err != nil:
		r.entry = leftOut(r.path, err)
		return
	}
	r.entry = makeNote(r.path, info, src, w.md.parse(r.path, src), time.Now())
	if have != nil && have.note != nil && have.note.digest == r.entry.note.digest {
		// The text is the same, and so is what it says: one copy is enough.
		n := *have.note
		n.modified = r.entry.note.modified
		r.entry.note = &n
	}
}
