package vault

import (
	"cmp"
	"context"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"
)

// nameTable indexes notes by file name in lower case, without the extension ".md".
type nameTable struct {
	once  sync.Once
	notes map[string][]named // sorted by named.compare
}

// named holds the path of a note, and its linkName as the key.
type named struct{ key, path string }

// named returns the notes whose linkName ends with the path segment name.
func (s *snapshot) named(name string) []named {
	t := s.names
	t.once.Do(func() {
		t.notes = make(map[string][]named, len(s.recent))
		for _, n := range s.recent {
			key := linkName(n.path)
			name := path.Base(key)
			t.notes[name] = append(t.notes[name], named{key, n.path})
		}
		for _, notes := range t.notes {
			sort.Slice(notes, func(i, j int) bool { return notes[i].compare(notes[j]) < 0 })
		}
	})
	return t.notes[name]
}

// compare orders notes by key (compared from its end), then by folder, then by firstChoice, so that
// all candidates for a link are adjacent.
func (n named) compare(o named) int {
	return cmp.Or(fromEnd(n.key, o.key), strings.Compare(parentOf(n.path), parentOf(o.path)), firstChoice(n.path, o.path))
}

// fromEnd compares two strings from their last byte to their first.
func fromEnd(a, b string) int {
	i, j := len(a)-1, len(b)-1
	for ; i >= 0 && j >= 0; i, j = i-1, j-1 {
		if a[i] != b[j] {
			return cmp.Compare(a[i], b[j])
		}
	}
	return cmp.Compare(i, j)
}

// firstChoice orders the paths of notes that match a link equally well: shorter paths come first.
func firstChoice(a, b string) int {
	return cmp.Or(len(a)-len(b), strings.Compare(a, b))
}

// linkName returns the form of a link or path that is used for comparisons.
func linkName(p string) string { return strings.TrimSuffix(strings.ToLower(p), ".md") }

// wanted returns the string that the key of a note must equal or end with to be the target of a
// link in the note from.
func wanted(link, from string) string {
	want := linkName(strings.TrimPrefix(link, "/"))
	if strings.HasPrefix(want, "./") || strings.HasPrefix(want, "../") {
		want = path.Join(path.Dir(linkName(from)), want)
	}
	return want
}

// fits reports whether want equals key or consists of its last path segments.
func fits(key, want string) bool {
	rest, ok := strings.CutSuffix(key, want)
	return ok && (rest == "" || rest[len(rest)-1] == '/')
}

// linker resolves links and caches the results, because many links in one request may have the same
// target. Only one goroutine may use it.
type linker struct {
	*snapshot
	best map[string]string // results of find, keyed by its argument want
}

func (s *snapshot) linker() *linker { return &linker{s, make(map[string]string)} }

// resolve returns the path of the note that is the target of a link in the note from, or "" if
// there is none. Like Obsidian, it matches the end of a path: it prefers a note whose whole path is
// the target, then a note in the same folder, then the shortest path.
func (l *linker) resolve(link, from string) string {
	if exact, ok := strings.CutPrefix(link, "/"); ok && l.note(exact) != nil {
		return exact
	}
	want := wanted(link, from)
	best, known := l.best[want]
	if !known {
		best = l.find(want)
		l.best[want] = best
	}
	if best == "" || linkName(best) == want {
		return best
	}
	return cmp.Or(l.sibling(want, from), best)
}

// find returns the best match for want in the whole vault.
func (s *snapshot) find(want string) string {
	notes, end := s.named(path.Base(want)), "/"+want
	fit := ending(notes, want, func(key string) bool { return key == want })
	if len(fit) == 0 {
		fit = ending(notes, end, func(key string) bool { return strings.HasSuffix(key, end) })
	}
	if len(fit) == 0 {
		return ""
	}
	return slices.MinFunc(fit, func(a, b named) int { return firstChoice(a.path, b.path) }).path
}

// ending returns the consecutive notes for which ok is true, starting with the first key that sorts
// at or after end.
func ending(notes []named, end string, ok func(key string) bool) []named {
	from, _ := slices.BinarySearchFunc(notes, end, func(n named, end string) int { return fromEnd(n.key, end) })
	to := from
	for to < len(notes) && ok(notes[to].key) {
		to++
	}
	return notes[from:to]
}

// sibling returns the match for want in the same folder as the note from.
func (s *snapshot) sibling(want, from string) string {
	dir := parentOf(from)
	key := path.Join(strings.ToLower(dir), path.Base(want))
	if !fits(key, want) {
		return ""
	}
	notes := s.named(path.Base(want))
	at, _ := slices.BinarySearchFunc(notes, named{key, ""}, func(n, o named) int {
		return cmp.Or(fromEnd(n.key, o.key), strings.Compare(parentOf(n.path), dir))
	})
	if at < len(notes) && notes[at].key == key && parentOf(notes[at].path) == dir {
		return notes[at].path
	}
	return ""
}

// linkTargets returns the sorted paths of the notes that a note links to, and its broken links.
func (s *snapshot) linkTargets(n *note) (to, broken []string) {
	l := s.linker()
	for _, link := range n.links {
		if p := l.resolve(link, n.path); p != "" {
			to = append(to, p)
		} else {
			broken = append(broken, strings.TrimPrefix(link, "/"))
		}
	}
	slices.Sort(to)
	return slices.Compact(to), broken
}

// backlinks returns the sorted paths of the notes that link to a note. The result is not cached,
// because a new note can change the targets of existing links.
func (s *snapshot) backlinks(ctx context.Context, p string) (from []string, err error) {
	l, key := s.linker(), linkName(p)
	for _, n := range s.recent {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if n.path != p && slices.ContainsFunc(n.links, func(link string) bool {
			// fits is cheap and rules out almost all links.
			return fits(key, wanted(link, n.path)) && l.resolve(link, n.path) == p
		}) {
			from = append(from, n.path)
		}
	}
	slices.Sort(from)
	return from, nil
}
