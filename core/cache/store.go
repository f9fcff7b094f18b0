package cache

import (
	"cmp"
	"container/list"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// DefaultMaxBytes is the bound of a Store that names none.
const DefaultMaxBytes = 64 << 20

// Store holds the caches of any number of servers, within one bound. Its methods, and
// those of its Sessions, Fetches and Views, are safe for concurrent use.
type Store struct {
	max int64

	mu       sync.Mutex // guards all below, and all sessions; never held for I/O
	used     int64
	recent   *list.List // of *item, most recently used first
	sessions map[string]*Session
	evicted  uint64
}

// NewStore returns an empty store for maxBytes; 0 means [DefaultMaxBytes].
func NewStore(maxBytes int64) *Store {
	return &Store{max: cmp.Or(maxBytes, DefaultMaxBytes), recent: list.New(), sessions: map[string]*Session{}}
}

// key names an entry of a session: a resource by its URI, one that was read by a template
// by the template, prompts and tools by name.
type key struct {
	kind catalog.Kind
	name string
}

// item is an entry and where it is.
type item struct {
	session *Session
	key     key
	value   entry
	begun   uint64 // number of the fetch that stored it
	size    int64
}

// Open returns the cache of a new session with the server. That of an earlier session is
// cleared.
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

// put replaces the entry of the key. s.mu must be held.
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
