package vault

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/skill"
)

// snapshot is the index at one moment. It is immutable, so it can be read without a lock. Derived
// tables are built on first use, and shared with the previous snapshot if their inputs have not
// changed.
type snapshot struct {
	entries []*entry // sorted by path
	recent  []*note  // all notes, sorted newest first, then by path
	skills  *skillSet

	tags  *tagTable
	names *nameTable
}

func newSnapshot() *snapshot {
	return &snapshot{tags: &tagTable{}, names: &nameTable{}, skills: &skillSet{}}
}

// scanned is the result of a scan: the new entries at and under a path.
type scanned struct {
	path    string // "" means the whole vault
	entries []*entry
}

// change describes the difference at one path. old is nil if the entry was added, and now is nil if
// it was removed.
type change struct {
	path     string
	old, now *entry
}

func byPath(a, b *entry) int { return strings.Compare(a.path, b.path) }

// newest orders notes as in vault://recent: newest first.
func newest(a, b *note) int {
	return cmp.Or(b.modified.Compare(a.modified), strings.Compare(a.path, b.path))
}

// with returns a snapshot in which the results of scans replace entries of s, together with the
// differences that clients can observe. If no entry was replaced, it returns s itself.
func (s *snapshot) with(scans []scanned) (*snapshot, []change) {
	replaced := make(coverage, len(scans))
	var fresh []*entry
	for _, l := range scans {
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
	next := &snapshot{entries: entries, recent: s.recent, skills: s.skills, tags: s.tags, names: s.names}
	next.derive(changes)
	return next, changes
}

// derive updates recent according to the changes, and resets the tables that the changes
// invalidate.
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

// at returns the entry at a path, or nil if there is none.
func (s *snapshot) at(p string) *entry {
	i, ok := slices.BinarySearchFunc(s.entries, p, func(e *entry, p string) int { return strings.Compare(e.path, p) })
	if !ok {
		return nil
	}
	return s.entries[i]
}

// note returns the note at a path, or nil if there is none.
func (s *snapshot) note(p string) *note { return noteOf(s.at(p)) }

// below returns all entries in a folder and its subfolders; "" is the whole vault.
func (s *snapshot) below(dir string) []*entry {
	if dir == "" {
		return s.entries
	}
	from := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].path >= dir+"/" })
	to := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].path >= dir+"0" }) // "0" is the byte after "/"
	return s.entries[from:to]
}

// isFolder reports whether a path is a folder; "" (the root) always is.
func (s *snapshot) isFolder(p string) bool {
	if p == "" {
		return true
	}
	e := s.at(p)
	return e != nil && e.dir
}

// coverage is a set of paths. Each path covers itself and everything under it.
type coverage map[string]struct{}

// has reports whether p is covered.
func (c coverage) has(p string) bool {
	if _, ok := c[p]; ok {
		return true
	}
	return c.above(p)
}

// above reports whether p is under one of the paths, but not equal to it.
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

// reduce returns the sorted paths that no other path covers.
func (c coverage) reduce() (paths []string) {
	for p := range c {
		if !c.above(p) {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	return paths
}

// entry represents a file or folder of the vault, including those that were skipped. It is
// immutable: every change creates a new entry.
type entry struct {
	path     string
	dir      bool
	size     int64
	modified time.Time
	inode    uint64
	left     error // why the entry was skipped; nil if it was not
	note     *note // nil if it is not a note

	// young means that the file was modified so shortly before it was read that a later write might
	// leave its modification time and size unchanged.
	young bool
}

// note is the index entry for a note. The text remains on disk.
type note struct {
	path           string
	title, preview string
	tags, links    []string
	size           int64
	modified       time.Time
	digest         [sha256.Size]byte
	item           json.RawMessage // the note's item in resources/list

	// frontmatter is the frontmatter as an entry of a skill contains it, and skillErr is the reason if
	// there is none. Both are set only for notes called SKILL.md.
	frontmatter json.RawMessage
	skillErr    error
}

// youth returns the possible granularity of a modification time. Some file systems store whole
// seconds or milliseconds, in steps of up to two seconds.
func youth(modified time.Time) time.Duration {
	if modified.Nanosecond()%int(time.Millisecond) == 0 {
		return 2 * time.Second
	}
	return 50 * time.Millisecond // longer than one tick of a kernel clock at 100 Hz
}

// file creates the entry for a file that is not a note.
func file(p string, info fs.FileInfo) *entry {
	inode, _ := identity(info)
	return &entry{path: p, size: info.Size(), modified: info.ModTime(), inode: inode}
}

func folder(p string) *entry { return &entry{path: p, dir: true} }

func skipped(p string, why error) *entry { return &entry{path: p, left: reason(why)} }

// unchanged reports whether a file certainly has the same content as when e was created.
func (e *entry) unchanged(info fs.FileInfo) bool {
	inode, _ := identity(info)
	return e != nil && e.left == nil && !e.dir && !e.young &&
		e.size == info.Size() && e.inode == inode && e.modified.Equal(info.ModTime())
}

// equal reports whether clients cannot distinguish two entries for the same path.
func (e *entry) equal(o *entry) bool {
	if e == nil || o == nil {
		return e == o
	}
	if e.dir != o.dir || e.left != o.left || e.size != o.size || !e.modified.Equal(o.modified) {
		return false
	}
	if e.note == nil || o.note == nil {
		return e.note == o.note
	}
	return e.note.digest == o.note.digest
}

// makeNote creates the entry for a note from its content.
func makeNote(p string, info fs.FileInfo, src []byte, f facts, now time.Time) *entry {
	e := file(p, info)
	e.young = now.Sub(info.ModTime()) < youth(info.ModTime())
	e.note = &note{
		path: p, title: f.title, preview: f.preview, tags: f.tags, links: f.links,
		size: int64(len(src)), modified: info.ModTime(), digest: sha256.Sum256(src),
	}
	if path.Base(p) == skill.Main {
		e.note.frontmatter, e.note.skillErr = skill.Frontmatter(src)
	}
	e.note.item = encode(struct {
		URI   string `json:"uri"`
		Name  string `json:"name"`
		Title string `json:"title,omitempty"`
		MIME  string `json:"mimeType"`
	}{noteURI(p), path.Base(p), f.title, mimeMarkdown})
	return e
}

// tagTable stores how many notes have each tag.
type tagTable struct {
	once sync.Once
	list []tagCount // sorted by descending number of notes, then by name
}

type tagCount struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// tagCounts returns the tags and how many notes have each, most used first. As in Obsidian, tags
// that differ only in case are counted together, under the most frequent spelling; if several
// spellings are equally frequent, under the first in sort order.
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
		sort.Slice(t.list, func(i, j int) bool {
			return cmp.Or(t.list[j].Count-t.list[i].Count, strings.Compare(t.list[i].Name, t.list[j].Name)) < 0
		})
	})
	return t.list
}
