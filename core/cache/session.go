package cache

import (
	"container/list"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Session is the cache of one session with one server, written to by the owner of the session.
// It may be used concurrently.
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

// Close removes all entries. Results of fetches in flight are not stored any more.
func (s *Session) Close() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.clear()
	s.closed = true
	if s.store.sessions[s.server] == s {
		delete(s.store.sessions, s.server)
	}
}

// Fetch begins a fetch: it must be called before the request is sent whose result is to be
// cached under a kind and a name. uri is the resource that is read, "" for prompts and
// tools.
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

// Gone removes the content of a resource that the server said it does not have.
func (s *Session) Gone(uri string) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.eachOf(uri, func(k key, _ *item) { s.drop(k) })
}

// Remove removes the entries of a kind that are no longer in the server's list. Results of
// fetches of them in flight are not stored any more.
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

// store.mu must be held for everything below.

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

// index adds the entry of a template to the index of its URI, or removes it there if cached
// is false. It does nothing for other kinds, whose keys say the URI.
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
