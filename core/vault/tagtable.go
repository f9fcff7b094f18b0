package vault

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// tagTable counts the notes that have each tag.
type tagTable struct {
	once sync.Once
	list []tagCount // the most used first, then by name
}

type tagCount struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// tagCounts returns the tags and how many notes have each, the most used first. Tags that
// differ in case only are counted as one, as in Obsidian, under the spelling that is used
// most; of equally used spellings, under the first in sort order.
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
