package vault

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"sync"
)

// nameTable finds notes by their names, in lower case and without ".md".
type nameTable struct {
	once  sync.Once
	paths map[string][]string
}

func (s *snapshot) pathsNamed(name string) []string {
	t := s.names
	t.once.Do(func() {
		t.paths = make(map[string][]string, len(s.recent))
		for _, n := range s.recent {
			key := linkName(path.Base(n.path))
			t.paths[key] = append(t.paths[key], n.path)
		}
	})
	return t.paths[name]
}

// linkName is how links are compared.
func linkName(p string) string { return strings.TrimSuffix(strings.ToLower(p), ".md") }

// resolve returns the path of the note that a link in another note leads to, "" if
// there is none. Like Obsidian it takes a target for the end of a path: of several
// notes the one whose path is the target, then one in the same folder, then the one
// with the shortest path.
func (s *snapshot) resolve(link, from string) string {
	if exact, ok := strings.CutPrefix(link, "/"); ok {
		if s.note(exact) != nil {
			return exact
		}
		link = exact
	}
	want := linkName(link)
	if strings.HasPrefix(want, "./") || strings.HasPrefix(want, "../") {
		want = path.Join(path.Dir(linkName(from)), want)
	}
	var fit []string
	for _, p := range s.pathsNamed(path.Base(want)) {
		if have := linkName(p); have == want || strings.HasSuffix(have, "/"+want) {
			fit = append(fit, p)
		}
	}
	if len(fit) == 0 {
		return ""
	}
	rank := func(p string) int {
		switch {
		case linkName(p) == want:
			return 0
		case path.Dir(p) == path.Dir(from):
			return 1
		}
		return 2
	}
	return slices.MinFunc(fit, func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), len(a)-len(b), strings.Compare(a, b))
	})
}

// linkTargets returns the notes that a note links to, in order, and the targets
// that lead nowhere.
func (s *snapshot) linkTargets(n *note) (to, broken []string) {
	for _, link := range n.links {
		if p := s.resolve(link, n.path); p != "" {
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
func (s *snapshot) backlinks(p string) (from []string) {
	name := linkName(path.Base(p))
	for _, n := range s.recent {
		for _, link := range n.links {
			if linkName(path.Base(link)) == name && n.path != p && s.resolve(link, n.path) == p {
				from = append(from, n.path)
				break
			}
		}
	}
	slices.Sort(from)
	return from
}
