package cache

import (
	"cmp"
	"container/list"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// DefaultMaxBytes is the bound of a Store that names none.
const DefaultMaxBytes = 64 << 20

// Store holds what was read from any number of servers, within one bound. Its
// methods, and those of all that it hands out, may be called from anywhere.
type Store struct {
	max int64

	mu      sync.Mutex // guards all below, and all shelves; never held for I/O
	used    int64
	recent  *list.List // of *item, the one used last in front
	shelves map[string]*Shelf
	evicted uint64
}

// NewStore returns an empty store for maxBytes; 0 means [DefaultMaxBytes].
func NewStore(maxBytes int64) *Store {
	return &Store{max: cmp.Or(maxBytes, DefaultMaxBytes), recent: list.New(), shelves: map[string]*Shelf{}}
}

// key names an entry of a shelf: a resource by its URI, one made from a template by
// the template, prompts and tools by name.
type key struct {
	kind catalog.Kind
	name string
}

// item is an entry in its place.
type item struct {
	shelf *Shelf
	key   key
	value entry
	begun uint64 // the fetch that brought it
	size  int64
}

// Open begins to keep what a session with the server brings. What an earlier
// session brought is forgotten.
func (s *Store) Open(server string) *Shelf {
	sh := &Shelf{store: s, server: server, items: map[key]*list.Element{},
		flights: map[*Fetch]struct{}{}, byURI: map[string]*uriIndex{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.shelves[server]; old != nil {
		old.clear()
	}
	s.shelves[server] = sh
	return sh
}

// View returns the readers' side of what is kept of the server, now and in later
// sessions.
func (s *Store) View(server string) View { return View{s, server} }

// put replaces what is under the key. It needs the lock.
func (s *Store) put(sh *Shelf, k key, v entry, begun uint64) {
	sh.drop(k)
	it := &item{shelf: sh, key: k, value: v, begun: begun, size: v.bytes()}
	sh.items[k] = s.recent.PushFront(it)
	sh.index(k, v, true)
	s.used += it.size
	for s.used > s.max {
		oldest := s.recent.Back().Value.(*item)
		oldest.shelf.drop(oldest.key)
		s.evicted++
	}
}
