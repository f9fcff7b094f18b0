package vault

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"sync"
)

// snapshot is the whole index at one moment. It never changes, so whoever holds one
// reads it without a lock. What is derived from it is made when it is first asked
// for, and taken over from the snapshot before where nothing that it depends on
// differs.
type snapshot struct {
	entries []*entry // by path
	recent  []*note  // the newest first, then by path

	tags  *tagTable
	names *nameTable
}

func newSnapshot() *snapshot { return &snapshot{tags: &tagTable{}, names: &nameTable{}} }

// found is what was found at a path and below it, in place of what was there.
type found struct {
	path    string // "" is the whole vault
	entries []*entry
}

// change is one path at which the vault differs. A nil entry is one that is not there.
type change struct {
	path     string
	old, now *entry
}

func byPath(a, b *entry) int { return strings.Compare(a.path, b.path) }

// newest orders notes as vault://recent has them.
func newest(a, b *note) int {
	return cmp.Or(b.modified.Compare(a.modified), strings.Compare(a.path, b.path))
}

// with returns the snapshot with what was found, and how it differs from s. If it
// does not, it is s.
func (s *snapshot) with(looks []found) (*snapshot, []change) {
	replaced := make(coverage, len(looks))
	var fresh []*entry
	for _, l := range looks {
		replaced[l.path] = struct{}{}
		fresh = append(fresh, l.entries...)
	}
	slices.SortFunc(fresh, byPath)
	var changes []change
	entries := make([]*entry, 0, len(s.entries)+len(fresh))
	i, j, same := 0, 0, true
	for i < len(s.entries) || j < len(fresh) {
		order := 0
		switch {
		case i == len(s.entries):
			order = 1
		case j == len(fresh):
			order = -1
		default:
			order = byPath(s.entries[i], fresh[j])
		}
		switch {
		case order < 0:
			old := s.entries[i]
			i++
			if !replaced.has(old.path) {
				entries = append(entries, old)
				continue
			}
			changes, same = append(changes, change{path: old.path, old: old}), false
		case order > 0:
			now := fresh[j]
			j++
			entries, same = append(entries, now), false
			changes = append(changes, change{path: now.path, now: now})
		default:
			old, now := s.entries[i], fresh[j]
			i, j = i+1, j+1
			entries = append(entries, now)
			if old != now {
				same = false
				if !old.equal(now) {
					changes = append(changes, change{now.path, old, now})
				}
			}
		}
	}
	if same {
		return s, nil
	}
	next := &snapshot{entries: entries, recent: s.recent, tags: s.tags, names: s.names}
	next.derive(changes)
	return next, changes
}

// derive brings what depends on the entries in line with them.
func (s *snapshot) derive(changes []change) {
	gone := make(map[string]bool)
	var come []*note
	for _, c := range changes {
		old, now := noteOf(c.old), noteOf(c.now)
		if old == nil && now == nil {
			continue
		}
		if old != nil {
			gone[old.path] = true
		}
		if now != nil {
			come = append(come, now)
		}
		if old == nil || now == nil {
			s.names, s.tags = &nameTable{}, &tagTable{}
		} else if !slices.Equal(old.tags, now.tags) {
			s.tags = &tagTable{}
		}
	}
	if len(gone)+len(come) == 0 {
		return
	}
	slices.SortFunc(come, newest)
	recent := make([]*note, 0, len(s.recent)+len(come)-len(gone))
	for _, n := range s.recent {
		if gone[n.path] {
			continue
		}
		for len(come) > 0 && newest(come[0], n) < 0 {
			recent, come = append(recent, come[0]), come[1:]
		}
		recent = append(recent, n)
	}
	s.recent = append(recent, come...)
}

func noteOf(e *entry) *note {
	if e == nil {
		return nil
	}
	return e.note
}

// at returns the entry of a path, or nil.
func (s *snapshot) at(p string) *entry {
	i, ok := slices.BinarySearchFunc(s.entries, p, func(e *entry, p string) int { return strings.Compare(e.path, p) })
	if !ok {
		return nil
	}
	return s.entries[i]
}

// note returns the note of a path, or nil.
func (s *snapshot) note(p string) *note { return noteOf(s.at(p)) }

// below returns the entries below a folder, "" for all.
func (s *snapshot) below(dir string) []*entry {
	if dir == "" {
		return s.entries
	}
	from := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].path >= dir+"/" })
	to := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].path >= dir+"0" }) // "0" follows "/"
	return s.entries[from:to]
}

// isFolder reports whether there is a folder; "" always is one.
func (s *snapshot) isFolder(p string) bool {
	if p == "" {
		return true
	}
	e := s.at(p)
	return e != nil && e.dir
}

// coverage are paths that stand for everything below them as well.
type coverage map[string]struct{}

// has reports whether p is covered.
func (c coverage) has(p string) bool {
	if _, ok := c[p]; ok {
		return true
	}
	return c.above(p)
}

// above reports whether p is below one of the paths.
func (c coverage) above(p string) bool {
	if _, ok := c[""]; ok {
		return p != ""
	}
	for i := range len(p) {
		if p[i] == '/' {
			if _, ok := c[p[:i]]; ok {
				return true
			}
		}
	}
	return false
}

// reduce returns the paths that no other one covers, in order.
func (c coverage) reduce() (kept []string) {
	for p := range c {
		if !c.above(p) {
			kept = append(kept, p)
		}
	}
	slices.Sort(kept)
	return kept
}

// tagTable counts in how many notes each tag is.
type tagTable struct {
	once sync.Once
	list []tagCount // the most used first, then by name
}

type tagCount struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// tagCounts folds tags that differ in case alone, as Obsidian does. Of several
// spellings the most used is told, and of these the first in order.
func (s *snapshot) tagCounts() []tagCount {
	t := s.tags
	t.once.Do(func() {
		type folded struct {
			count     int
			spellings map[string]int
		}
		all := make(map[string]*folded)
		for _, n := range s.recent {
			keys := make([]string, 0, len(n.tags))
			for _, tag := range n.tags {
				key := strings.ToLower(tag)
				f := all[key]
				if f == nil {
					f = &folded{spellings: make(map[string]int)}
					all[key] = f
				}
				f.spellings[tag]++
				if !slices.Contains(keys, key) {
					keys = append(keys, key)
					f.count++
				}
			}
		}
		for _, f := range all {
			best := ""
			for name, count := range f.spellings {
				if best == "" || count > f.spellings[best] || count == f.spellings[best] && name < best {
					best = name
				}
			}
			t.list = append(t.list, tagCount{Name: best, Count: f.count})
		}
		slices.SortFunc(t.list, func(a, b tagCount) int {
			return cmp.Or(b.Count-a.Count, strings.Compare(a.Name, b.Name))
		})
	})
	return t.list
}
