// Package cache stores the results of requests to servers: the contents of resources,
// including those that a URI template expands to, prompts, and results of tools. It makes it
// possible to show results again without repeating the request. It never answers in place of a
// server unless the server's ttlMs allows it and the caller asks for it.
//
// # Ownership
//
// Readers have a [View]: its getters return copies, and its clears remove entries. Only
// the owner of a session writes, through the [Session] of the cache. The entries live as
// long as the session; a closed Session rejects late results.
//
// # Order
//
// Every result is stored through a [Fetch] that was begun before its request was sent. A
// result never replaces the result of a request that was begun later. If an update is announced
// between the two ([Session.Updated]), the result is [Outdated]: it may be older than the update,
// is not stored, and must be fetched again. So once the last Fetch has ended, no entry is
// older than the last announced update.
//
// # Bounds
//
// All sessions of a [Store] share one bound in bytes; the least recently used entries are
// evicted first. A single result may take a quarter of it.
//
// The rules for ttlMs and cacheScope come from MCP 2026-07-28 (server/utilities/caching): an absent or negative ttlMs is 0, an absent scope is private. A Store is used
// by one user with one set of credentials, so it may store private results; code that
// passes results to other users must check Private.
package cache

import (
	"cmp"
	"container/list"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// DefaultMaxBytes is the bound of a Store if [NewStore] is called with 0.
const DefaultMaxBytes = 64 << 20

// Store holds the caches of any number of servers, within one bound. It is safe for
// concurrent use, and so are its Sessions, Fetches and Views.
type Store struct {
	max int64 // bytes

	mu       sync.Mutex          // guards all below, and all sessions; never held for I/O
	used     int64               // bytes of all entries, roughly
	recent   *list.List          // of *item, most recently used first
	sessions map[string]*Session // the latest of each server, by id
}

// NewStore returns an empty store for maxBytes; 0 means [DefaultMaxBytes].
func NewStore(maxBytes int64) *Store {
	return &Store{max: cmp.Or(maxBytes, DefaultMaxBytes), recent: list.New(), sessions: map[string]*Session{}}
}

// key identifies an entry of a session: the name is a URI, a template for a resource that was
// read through it, or the name of a prompt or tool.
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

// Open returns the cache of a new session with the server, and clears the cache of an earlier
// one.
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
	}
}

// Session is the cache of one session with one server. Only the owner of the session writes to it.
type Session struct {
	store  *Store
	server string

	// All below is guarded by store.mu.
	closed  bool
	seq     uint64 // number of the last fetch
	items   map[key]*list.Element
	flights map[*Fetch]struct{}
	byURI   map[string]*uriIndex
}

// uriIndex finds the entries and fetches that an update of one URI concerns.
type uriIndex struct {
	templates map[string]struct{} // templates whose entry has the content of the URI
	flights   map[*Fetch]struct{} // fetches of the URI in flight
}

// Close removes all entries. Results of fetches in flight are no longer stored.
func (s *Session) Close() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.clear()
	s.closed = true
	if s.store.sessions[s.server] == s {
		delete(s.store.sessions, s.server)
	}
}

// Fetch begins a fetch whose result is cached under a kind and a name. It must be called before
// the request is sent. uri is the resource that is read, "" for prompts and tools.
func (s *Session) Fetch(kind catalog.Kind, name, uri string) *Fetch {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.seq++
	f := &Fetch{session: s, key: key{kind, name}, uri: uri, begun: s.seq}
	s.flights[f] = struct{}{}
	if uri != "" {
		s.at(uri).flights[f] = struct{}{}
	}
	return f
}

// Holds reports whether the content of the URI is cached, under any key.
func (s *Session) Holds(uri string) bool {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	_, ok := s.items[key{catalog.Resources, uri}]
	ix := s.byURI[uri]
	return ok || ix != nil && len(ix.templates) > 0
}

// Updated records that the server announced an update of a resource: entries with its
// content become stale, and fetches of it in flight become outdated.
func (s *Session) Updated(uri string) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.eachOf(uri, func(_ key, it *item) {
		r := it.value.(Resource)
		r.Stale = true
		it.value = r
	})
	if ix := s.byURI[uri]; ix != nil {
		for f := range ix.flights {
			f.outdated = true
		}
	}
}

// Gone removes the content of a resource that the server reports as missing.
func (s *Session) Gone(uri string) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.eachOf(uri, func(k key, _ *item) { s.drop(k) })
}

// Remove removes the entries of a kind that are no longer in the server's list. Results of their
// fetches in flight are no longer stored.
func (s *Session) Remove(kind catalog.Kind, names []string) {
	if len(names) == 0 {
		return
	}
	gone := make(map[string]struct{}, len(names))
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, name := range names {
		gone[name] = struct{}{}
		s.drop(key{kind, name})
	}
	for f := range s.flights {
		if _, ok := gone[f.key.name]; ok && f.key.kind == kind {
			f.unwanted = true
		}
	}
}

// store.mu must be held for the methods of Session below.

// at returns the index of a URI, creating it if necessary.
func (s *Session) at(uri string) *uriIndex {
	ix := s.byURI[uri]
	if ix == nil {
		ix = &uriIndex{templates: map[string]struct{}{}, flights: map[*Fetch]struct{}{}}
		s.byURI[uri] = ix
	}
	return ix
}

// tidy removes the index of a URI if it is empty.
func (s *Session) tidy(uri string) {
	if ix := s.byURI[uri]; ix != nil && len(ix.templates)+len(ix.flights) == 0 {
		delete(s.byURI, uri)
	}
}

// index adds the entry of a template to the index of its URI, or removes it from there if cached
// is false. It does nothing for other kinds, whose keys contain the URI.
func (s *Session) index(k key, v entry, cached bool) {
	if k.kind != catalog.Templates {
		return
	}
	uri := v.(Resource).URI
	if cached {
		s.at(uri).templates[k.name] = struct{}{}
		return
	}
	if ix := s.byURI[uri]; ix != nil {
		delete(ix.templates, k.name)
	}
	s.tidy(uri)
}

// eachOf calls visit for every entry that has the content of the URI.
func (s *Session) eachOf(uri string, visit func(key, *item)) {
	k := key{catalog.Resources, uri}
	if el := s.items[k]; el != nil {
		visit(k, el.Value.(*item))
	}
	ix := s.byURI[uri]
	if ix == nil {
		return
	}
	for template := range ix.templates {
		k := key{catalog.Templates, template}
		visit(k, s.items[k].Value.(*item))
	}
}

// drop removes one entry, if it exists.
func (s *Session) drop(k key) bool {
	el := s.items[k]
	if el == nil {
		return false
	}
	it := s.store.recent.Remove(el).(*item)
	delete(s.items, k)
	s.index(k, it.value, false)
	s.store.used -= it.size
	return true
}

// clear removes all entries.
func (s *Session) clear() {
	for k := range s.items {
		s.drop(k)
	}
}

// Fetch is one request whose result will be cached. It ends with exactly one call of
// Resource, Prompt, ToolResult, Refresh or Cancel.
type Fetch struct {
	session *Session
	key     key    // of the entry in which the result is stored
	uri     string // the resource that is read; "" for prompts and tools
	begun   uint64 // number of the fetch in its session; it rises

	// Guarded by the store's lock.
	outdated bool // an update of the resource was announced since the fetch began
	unwanted bool // the server no longer lists the fetched item
}

// Outcome is what the cache did with a result.
type Outcome uint8

// The outcomes.
const (
	// Stored: the result is cached.
	Stored Outcome = iota
	// Outdated: an update was announced since the request was sent. Fetch again.
	Outdated
	// Superseded: the result of a later request is already cached, the session has ended,
	// or the server no longer offers the fetched item.
	Superseded
	// TooLarge: the result does not fit; an older entry is removed.
	TooLarge
)

// Resource caches the content of a resource.
func (f *Fetch) Resource(r Resource) Outcome { return f.store(r) }

// Prompt caches a prompt.
func (f *Fetch) Prompt(p Prompt) Outcome { return f.store(p) }

// ToolResult caches the result of a tool.
func (f *Fetch) ToolResult(t ToolResult) Outcome { return f.store(t) }

// Cancel ends a fetch without a result.
func (f *Fetch) Cancel() {
	f.session.store.mu.Lock()
	defer f.session.store.mu.Unlock()
	f.end()
}

func (f *Fetch) store(v entry) Outcome {
	v = v.own()
	s := f.session.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.end()
	switch {
	case f.session.closed || f.unwanted:
		return Superseded
	case f.outdated:
		return Outdated
	}
	if el := f.session.items[f.key]; el != nil && el.Value.(*item).begun > f.begun {
		return Superseded
	}
	if v.bytes() > s.max/4 {
		f.session.drop(f.key)
		return TooLarge
	}
	s.put(f.session, f.key, v, f.begun)
	return Stored
}

// Replaced is an entry that Refresh updated, before and after.
type Replaced struct{ Was, Now Resource }

// Refresh updates the entries that have the content of the URI, under any key, with
// content that was read for another reason. It creates no entry and ignores outdated content.
func (f *Fetch) Refresh(r Resource) []Replaced {
	s := f.session.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.end()
	if f.session.closed || f.outdated {
		return nil
	}
	var keys []key
	f.session.eachOf(f.uri, func(k key, it *item) {
		if it.begun <= f.begun {
			keys = append(keys, k)
		}
	})
	var out []Replaced
	for _, k := range keys {
		el := f.session.items[k]
		if el == nil {
			continue // evicted to make room for the previous one
		}
		was := el.Value.(*item).value.(Resource)
		now := r
		now.URI, now.Template, now.Params = was.URI, was.Template, was.Params
		if now.bytes() > s.max/4 {
			f.session.drop(k)
			continue
		}
		s.put(f.session, k, now, f.begun)
		out = append(out, Replaced{was.own().(Resource), now.own().(Resource)})
	}
	return out
}

// end removes the fetch from the session's fetches in flight. store.mu must be held.
func (f *Fetch) end() {
	delete(f.session.flights, f)
	if ix := f.session.byURI[f.uri]; f.uri != "" && ix != nil {
		delete(ix.flights, f)
		f.session.tidy(f.uri)
	}
}

// View is read access to the cache of one server. Its getters return copies. The zero
// View is not usable; see [Store.View].
type View struct {
	store  *Store
	server string
}

// Resource returns the cached content of a URI, false if there is none.
func (v View) Resource(uri string) (Resource, bool) { return get[Resource](v, catalog.Resources, uri) }

// Template returns the content that was last read through a URI template, with the
// parameters; false if none is cached.
func (v View) Template(template string) (Resource, bool) {
	return get[Resource](v, catalog.Templates, template)
}

// Prompt returns the cached result of a prompt, with its arguments; false if there is
// none.
func (v View) Prompt(name string) (Prompt, bool) { return get[Prompt](v, catalog.Prompts, name) }

// ToolResult returns the cached result of a tool; false if there is none.
func (v View) ToolResult(name string) (ToolResult, bool) {
	return get[ToolResult](v, catalog.Tools, name)
}

// ClearResource removes the content of a URI. It reports whether there was any.
func (v View) ClearResource(uri string) bool { return v.clear(catalog.Resources, uri) }

// ClearTemplate removes the content that was read through a URI template.
func (v View) ClearTemplate(template string) bool { return v.clear(catalog.Templates, template) }

// ClearPrompt removes a prompt.
func (v View) ClearPrompt(name string) bool { return v.clear(catalog.Prompts, name) }

// ClearToolResult removes the result of a tool.
func (v View) ClearToolResult(name string) bool { return v.clear(catalog.Tools, name) }

// ClearAll removes all entries of the server. Lists, subscriptions and requests in flight
// are unaffected.
func (v View) ClearAll() {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	if c := v.store.sessions[v.server]; c != nil {
		c.clear()
	}
}

// Keys returns the URIs, templates or names that have an entry, sorted.
func (v View) Keys(kind catalog.Kind) []string {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	var names []string
	if c := v.store.sessions[v.server]; c != nil {
		for k := range c.items {
			if k.kind == kind {
				names = append(names, k.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func (v View) clear(kind catalog.Kind, name string) bool {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	c := v.store.sessions[v.server]
	return c != nil && c.drop(key{kind, name})
}

// get returns an entry and marks it as recently used.
func get[E entry](v View, kind catalog.Kind, name string) (E, bool) {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	var none E
	c := v.store.sessions[v.server]
	if c == nil {
		return none, false
	}
	el := c.items[key{kind, name}]
	if el == nil {
		return none, false
	}
	v.store.recent.MoveToFront(el)
	return el.Value.(*item).value.own().(E), true
}
