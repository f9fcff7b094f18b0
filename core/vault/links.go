package vault

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"sync"
)

// nameTable finds notes by their names, in lower case and without ".md".
type nameTable struct {
	once  sync.Once
	notes map[string][]named // in the order of fromEnd; many may have one name
}

// named is a note as links see it.
type named struct{ key, path string }

// named returns the notes of a name.
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
			slices.SortFunc(notes, named.compare)
		}
	})
	return t.notes[name]
}

// compare has notes whose keys end alike together, of these those of one folder, and
// there the first choice first.
func (n named) compare(o named) int {
	return cmp.Or(fromEnd(n.key, o.key), strings.Compare(parentOf(n.path), parentOf(o.path)), firstChoice(n.path, o.path))
}

// fromEnd compares texts from their last byte to their first.
func fromEnd(a, b string) int {
	i, j := len(a)-1, len(b)-1
	for ; i >= 0 && j >= 0; i, j = i-1, j-1 {
		if a[i] != b[j] {
			return cmp.Compare(a[i], b[j])
		}
	}
	return cmp.Compare(i, j)
}

// firstChoice orders notes that a link fits equally well.
func firstChoice(a, b string) int {
	return cmp.Or(len(a)-len(b), strings.Compare(a, b))
}

// linkName is how links are compared.
func linkName(p string) string { return strings.TrimSuffix(strings.ToLower(p), ".md") }

// wanted is what the key of a note must be, or end with, to be what a link in
// another note leads to.
func wanted(link, from string) string {
	want := linkName(strings.TrimPrefix(link, "/"))
	if strings.HasPrefix(want, "./") || strings.HasPrefix(want, "../") {
		want = path.Join(path.Dir(linkName(from)), want)
	}
	return want
}

// fits reports whether what a link wants is the end of a key.
func fits(key, want string) bool {
	rest, ok := strings.CutSuffix(key, want)
	return ok && (rest == "" || rest[len(rest)-1] == '/')
}

// linker finds where links lead. It is of one goroutine and one answer, in which
// many links may want the same.
type linker struct {
	*snapshot
	best map[string]string // by what is wanted, wherever the link is
}

func (s *snapshot) linker() *linker { return &linker{s, make(map[string]string)} }

// resolve returns the path of the note that a link in another note leads to, "" if
// there is none. Like Obsidian it takes a target for the end of a path: of several
// notes the one whose path is the target, then one in the same folder, then the one
// with the shortest path.
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
	return cmp.Or(l.beside(want, from), best)
}

// find is the note for what is wanted, whoever wants it.
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

// ending returns those of notes in order whose keys have an end, as ok says; they
// follow one another.
func ending(notes []named, end string, ok func(key string) bool) []named {
	from, _ := slices.BinarySearchFunc(notes, end, func(n named, end string) int { return fromEnd(n.key, end) })
	to := from
	for to < len(notes) && ok(notes[to].key) {
		to++
	}
	return notes[from:to]
}

// beside is the note for what is wanted in the folder of the note that wants it.
func (s *snapshot) beside(want, from string) string {
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

// linkTargets returns the notes that a note links to, in order, and the targets
// that lead nowhere.
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

// backlinks returns the notes that link to a note, in order. Nothing of it is kept:
// a new note changes what the links of others mean.
func (s *snapshot) backlinks(ctx context.Context, p string) (from []string, err error) {
	l, key := s.linker(), linkName(p)
	for _, n := range s.recent {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if n.path != p && slices.ContainsFunc(n.links, func(link string) bool {
			// Few links can lead to p at all, and only of these more is to be known.
			return fits(key, wanted(link, n.path)) && l.resolve(link, n.path) == p
		}) {
			from = append(from, n.path)
		}
	}
	slices.Sort(from)
	return from, nil
}
