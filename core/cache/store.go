package cache

import (
	"cmp"
	"container/list"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// DefaultMaxBytes is the bound of a Store if [NewStore] is given none.
const DefaultMaxBytes = 64 << 20

// Store holds the caches of any number of servers, within one bound. Its methods, and
// those of its Sessions, Fetches and Views, are safe for concurrent use.
type Store struct {
	max int64 // bytes

	mu       sync.Mutex          // guards all below, and all sessions; never held for I/O
	used     int64               // bytes of all entries, roughly
	recent   *list.List          // of *item, most recently used first
	sessions map[string]*Session // the latest of each server, by id
	evicted  uint64              // entries removed to make room
}

// NewStore returns an empty store for maxBytes; 0 means [DefaultMaxBytes].
func NewStore(maxBytes int64) *Store {
	return &Store{max: cmp.Or(maxBytes, DefaultMaxBytes), recent: list.New(), sessions: map[string]*Session{}}
}

// key names an entry of a session: resources are named by their URI, resources that were
// read through a template by the template, prompts and tools by their name.
type key struct {
	kind catalog.Kind
	name string
}

// item is an entry with the session and the key under which it is stored.
type item struct {
	session *Session
	key     key
	value   entry
	begun   uint64 // number of the fetch that stored it
	size    int64  // bytes
}

// Open returns the cache of a new session with the server. The cache of an earlier session
// with it is cleared.
func (s *Store) Open(server string) *Session {
	c := &Session{store: s, server: server, items: map[key]*list.Element{},
		flights: map[*Fetch]struct{}{}, byURI: map[string]*uriIndex{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.sessions[server]; old != nil {
		old.clear()
	}
	s.sessions[server] = c
	return c
}

// View returns read access to the cache of the server, now and in later sessions.
func (s *Store) View(server string) View { return View{s, server} }

// put replaces the entry of the key, and evicts others to make room. s.mu must be held.
func (s *Store) put(c *Session, k key, v entry, begun uint64) {
	c.drop(k)
	it := &item{session: c, key: k, value: v, begun: begun, size: v.bytes()}
	c.items[k] = s.recent.PushFront(it)
	c.index(k, v, true)
	s.used += it.size
	for s.used > s.max {
		oldest := s.recent.Back().Value.(*item)
		oldest.session.drop(oldest.key)
		s.evicted++
	}
}
