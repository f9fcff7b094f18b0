// Package cache stores the results of requests to servers: the contents of resources, including
// resources read through a URI template, prompts, and results of tool calls. Callers can show these
// results again without repeating the request. The cache replaces a request to the server only if
// the server's ttlMs allows it and the caller asks for it.
//
// # Ownership
//
// Readers use a [View]: its getters return copies, and its Clear methods remove entries. Only the
// owner of a session writes, through the [Session] of the cache. Entries are kept until the session
// ends; a closed Session rejects results that arrive later.
//
// # Order
//
// Every result is stored through a [Fetch] that was started before the request was sent. A result
// never replaces the result of a request that was started later. If an update is announced while
// the Fetch is in flight ([Session.Updated]), the result is [Outdated]: it may be older than the
// update, so it is not stored, and must be fetched again. Therefore, once the last Fetch has ended,
// no entry is older than the last announced update.
//
// # Limits
//
// All sessions of a [Store] share one size limit; the least recently used entries are evicted
// first. A single result may use at most a quarter of the limit.
//
// The rules for ttlMs and cacheScope come from MCP 2026-07-28 (server/utilities/caching): an absent
// or negative ttlMs means 0, and an absent cacheScope means private. A Store is used by one user
// with one set of credentials, so it may store private results; code that passes results to other
// users must check Private.
package cache

import (
	"cmp"
	"container/list"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// DefaultMaxBytes is the size limit of a Store if [NewStore] is called with 0.
const DefaultMaxBytes = 64 << 20

// Store holds the caches for any number of servers, subject to one total size limit. A Store and
// its Sessions, Fetches and Views are safe for concurrent use.
type Store struct {
	max int64 // size limit in bytes

	mu       sync.Mutex          // guards the fields below and all sessions; never held during I/O
	used     int64               // approximate total size of all entries, in bytes
	recent   *list.List          // values are *item, most recently used first
	sessions map[string]*Session // latest session of each server, by server id
}

// NewStore returns an empty store with a limit of maxBytes; 0 means [DefaultMaxBytes].
func NewStore(maxBytes int64) *Store {
	return &Store{max: cmp.Or(maxBytes, DefaultMaxBytes), recent: list.New(), sessions: map[string]*Session{}}
}

// key identifies an entry of a session. The name is a URI, a URI template for a resource that was
// read through it, or the name of a prompt or tool.
type key struct {
	kind catalog.Kind
	name string
}

// item is a cached entry together with the session and the key under which it is stored.
type item struct {
	session *Session
	key     key
	value   entry
	begun   uint64 // number of the fetch that stored the entry
	size    int64  // size in bytes
}

// Open returns the cache for a new session with the server. It closes the cache of the previous
// session, if any.
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

// View returns access to the server's cache for readers. The View remains valid across sessions.
func (s *Store) View(server string) View { return View{s, server} }

// put stores v under the key, replacing any previous entry, and evicts other entries if the limit
// is exceeded. s.mu must be held.
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

	// The fields below are guarded by store.mu.
	closed  bool
	seq     uint64 // number of the most recently started fetch
	items   map[key]*list.Element
	flights map[*Fetch]struct{}
	byURI   map[string]*uriIndex
}

// uriIndex lists the entries and fetches affected by an update of one URI.
type uriIndex struct {
	templates map[string]struct{} // templates whose entry holds the content of the URI
	flights   map[*Fetch]struct{} // fetches of the URI that are in flight
}

// Close removes all entries. Results of fetches still in flight will not be stored.
func (s *Session) Close() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.clear()
	s.closed = true
	if s.store.sessions[s.server] == s {
		delete(s.store.sessions, s.server)
	}
}

// Fetch starts a fetch whose result will be cached under the given kind and name. It must be called
// before the request is sent. uri is the resource to be read; it is empty for prompts and tools.
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

// Holds reports whether the content of the URI is cached under any key.
func (s *Session) Holds(uri string) bool {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	_, ok := s.items[key{catalog.Resources, uri}]
	ix := s.byURI[uri]
	return ok || ix != nil && len(ix.templates) > 0
}

// Updated records that the server announced an update of a resource: entries with the resource's
// content become stale, and fetches of it that are in flight become outdated.
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

// URIs returns the URIs whose content is cached under any key, or is being fetched, in no particular
// order.
func (s *Session) URIs() []string {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	var all []string
	for k := range s.items {
		if k.kind == catalog.Resources {
			all = append(all, k.name)
		}
	}
	for uri := range s.byURI {
		if _, listed := s.items[key{catalog.Resources, uri}]; !listed {
			all = append(all, uri)
		}
	}
	return all
}

// Gone removes the content of a resource that the server reports as missing.
func (s *Session) Gone(uri string) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.eachOf(uri, func(k key, _ *item) { s.drop(k) })
}

// Remove removes the entries of the given kind and names, which are no longer in the server's list.
// Results of fetches of these items that are in flight will not be stored.
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

// store.mu must be held when the Session methods below are called.

// at returns the index of a URI, creating it if necessary.
func (s *Session) at(uri string) *uriIndex {
	ix := s.byURI[uri]
	if ix == nil {
		ix = &uriIndex{templates: map[string]struct{}{}, flights: map[*Fetch]struct{}{}}
		s.byURI[uri] = ix
	}
	return ix
}

// tidy deletes the index of a URI if it has become empty.
func (s *Session) tidy(uri string) {
	if ix := s.byURI[uri]; ix != nil && len(ix.templates)+len(ix.flights) == 0 {
		delete(s.byURI, uri)
	}
}

// index adds an entry read through a URI template to the index of its URI, or removes it from there
// if cached is false. It does nothing for entries of other kinds, because their key already
// identifies the URI.
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

// eachOf calls visit for every entry that holds the content of the URI.
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

// drop removes the entry with the given key and reports whether it existed.
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

// Fetch represents one request whose result will be cached. Exactly one of Resource, Prompt,
// ToolResult, Refresh or Cancel must be called to finish it.
type Fetch struct {
	session *Session
	key     key    // key under which the result is stored
	uri     string // resource that is read; empty for prompts and tools
	begun   uint64 // sequence number of the fetch within its session

	// Guarded by the store's lock.
	outdated bool // an update of the resource was announced after the fetch started
	unwanted bool // the server no longer lists the fetched item
}

// Outcome describes what the cache did with a result.
type Outcome uint8

// The possible outcomes of storing a result.
const (
	// Stored means that the result is cached.
	Stored Outcome = iota
	// Outdated means that an update was announced after the fetch started; the result was discarded
	// and must be fetched again.
	Outdated
	// Superseded means that the result was discarded because the result of a later request is
	// already cached, the session has ended, or the server no longer offers the fetched item.
	Superseded
	// TooLarge means that the result exceeds the size limit for an entry; any older entry has been
	// removed.
	TooLarge
)

// Resource finishes the fetch and caches the content of a resource.
func (f *Fetch) Resource(r Resource) Outcome { return f.store(r) }

// Prompt finishes the fetch and caches a prompt.
func (f *Fetch) Prompt(p Prompt) Outcome { return f.store(p) }

// ToolResult finishes the fetch and caches the result of a tool call.
func (f *Fetch) ToolResult(t ToolResult) Outcome { return f.store(t) }

// Cancel finishes the fetch without a result.
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

// Replaced holds an entry before and after an update by [Fetch.Refresh].
type Replaced struct{ Was, Now Resource }

// Refresh finishes the fetch and updates every existing entry for the URI, under any key, with
// content that was read for another purpose. It creates no new entries and discards outdated
// content.
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
			continue // evicted when an earlier entry of this loop was stored
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

// end removes the fetch from the session's list of fetches in flight. store.mu must be held.
func (f *Fetch) end() {
	delete(f.session.flights, f)
	if ix := f.session.byURI[f.uri]; f.uri != "" && ix != nil {
		delete(ix.flights, f)
		f.session.tidy(f.uri)
	}
}

// View lets readers use the cache of one server. Its getters return copies; its Clear methods
// remove entries. The zero View is not usable; see [Store.View].
type View struct {
	store  *Store
	server string
}

// Resource returns the cached content of a URI, or false if there is none.
func (v View) Resource(uri string) (Resource, bool) { return get[Resource](v, catalog.Resources, uri) }

// Template returns the content that was last read through a URI template, including the template
// parameters, or false if none is cached.
func (v View) Template(template string) (Resource, bool) {
	return get[Resource](v, catalog.Templates, template)
}

// Prompt returns the cached result of a prompts/get request, including its arguments, or false if
// there is none.
func (v View) Prompt(name string) (Prompt, bool) { return get[Prompt](v, catalog.Prompts, name) }

// ToolResult returns the cached result of a tool call, or false if there is none.
func (v View) ToolResult(name string) (ToolResult, bool) {
	return get[ToolResult](v, catalog.Tools, name)
}

// ClearResource removes the cached content of a URI and reports whether there was any.
func (v View) ClearResource(uri string) bool { return v.clear(catalog.Resources, uri) }

// ClearTemplate removes the cached content that was read through a URI template and reports whether
// there was any.
func (v View) ClearTemplate(template string) bool { return v.clear(catalog.Templates, template) }

// ClearPrompt removes a cached prompt and reports whether there was one.
func (v View) ClearPrompt(name string) bool { return v.clear(catalog.Prompts, name) }

// ClearToolResult removes the cached result of a tool and reports whether there was one.
func (v View) ClearToolResult(name string) bool { return v.clear(catalog.Tools, name) }

// ClearAll removes all cached entries for the server. Lists, subscriptions and requests in flight
// are unaffected.
func (v View) ClearAll() {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	if c := v.store.sessions[v.server]; c != nil {
		c.clear()
	}
}

// Keys returns the sorted URIs, templates or names that have a cached entry of the given kind.
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
