package cache

import (
	"container/list"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Shelf is the writing side of what is kept of one session with one server. It
// belongs to who holds the session.
type Shelf struct {
	store  *Store
	server string

	// All below is guarded by store.mu.
	closed  bool
	seq     uint64 // of fetches
	items   map[key]*list.Element
	flights map[*Fetch]struct{}
	byURI   map[string]*uriIndex
}

// uriIndex finds what an update of one URI concerns.
type uriIndex struct {
	templates map[string]struct{} // entries of templates that were expanded to it
	flights   map[*Fetch]struct{}
}

// Close forgets all, and from here on whatever is still under way.
func (sh *Shelf) Close() {
	sh.store.mu.Lock()
	defer sh.store.mu.Unlock()
	sh.clear()
	sh.closed = true
	if sh.store.shelves[sh.server] == sh {
		delete(sh.store.shelves, sh.server)
	}
}

// Fetch begins to fetch what is kept under a kind and a name: before the request is
// sent. uri is what is read, "" for prompts and tools.
func (sh *Shelf) Fetch(kind catalog.Kind, name, uri string) *Fetch {
	sh.store.mu.Lock()
	defer sh.store.mu.Unlock()
	sh.seq++
	f := &Fetch{shelf: sh, key: key{kind, name}, uri: uri, begun: sh.seq}
	sh.flights[f] = struct{}{}
	if uri != "" {
		sh.at(uri).flights[f] = struct{}{}
	}
	return f
}

// Holds reports whether the content of the URI is kept, under whatever key.
func (sh *Shelf) Holds(uri string) bool {
	sh.store.mu.Lock()
	defer sh.store.mu.Unlock()
	_, ok := sh.items[key{catalog.Resources, uri}]
	ix := sh.byURI[uri]
	return ok || ix != nil && len(ix.templates) > 0
}

// Updated notes that the server announced an update: what is kept of the URI is
// stale from here on, and what is under way is outdated.
func (sh *Shelf) Updated(uri string) {
	sh.store.mu.Lock()
	defer sh.store.mu.Unlock()
	sh.eachOf(uri, func(_ key, it *item) {
		r := it.value.(Resource)
		r.Stale = true
		it.value = r
	})
	if ix := sh.byURI[uri]; ix != nil {
		for f := range ix.flights {
			f.outdated = true
		}
	}
}

// Gone forgets the content of a URI that the server does not have.
func (sh *Shelf) Gone(uri string) {
	sh.store.mu.Lock()
	defer sh.store.mu.Unlock()
	sh.eachOf(uri, func(k key, _ *item) { sh.drop(k) })
}

// Remove forgets what is no longer in the server's list, and what of it is still
// under way.
func (sh *Shelf) Remove(kind catalog.Kind, names []string) {
	if len(names) == 0 {
		return
	}
	gone := make(map[string]struct{}, len(names))
	sh.store.mu.Lock()
	defer sh.store.mu.Unlock()
	for _, name := range names {
		gone[name] = struct{}{}
		sh.drop(key{kind, name})
	}
	for f := range sh.flights {
		if _, ok := gone[f.key.name]; ok && f.key.kind == kind {
			f.unwanted = true
		}
	}
}

// What follows needs the lock.

// at returns the index of a URI, made if need be.
func (sh *Shelf) at(uri string) *uriIndex {
	ix := sh.byURI[uri]
	if ix == nil {
		ix = &uriIndex{templates: map[string]struct{}{}, flights: map[*Fetch]struct{}{}}
		sh.byURI[uri] = ix
	}
	return ix
}

// tidy drops an index that is of no more use.
func (sh *Shelf) tidy(uri string) {
	if ix := sh.byURI[uri]; ix != nil && len(ix.templates)+len(ix.flights) == 0 {
		delete(sh.byURI, uri)
	}
}

// index notes, or forgets, which templates are expanded to a URI.
func (sh *Shelf) index(k key, v entry, kept bool) {
	if k.kind != catalog.Templates {
		return
	}
	uri := v.(Resource).URI
	if kept {
		sh.at(uri).templates[k.name] = struct{}{}
		return
	}
	if ix := sh.byURI[uri]; ix != nil {
		delete(ix.templates, k.name)
	}
	sh.tidy(uri)
}

// eachOf calls visit for every entry that has the content of the URI.
func (sh *Shelf) eachOf(uri string, visit func(key, *item)) {
	k := key{catalog.Resources, uri}
	if el := sh.items[k]; el != nil {
		visit(k, el.Value.(*item))
	}
	ix := sh.byURI[uri]
	if ix == nil {
		return
	}
	for template := range ix.templates {
		k := key{catalog.Templates, template}
		visit(k, sh.items[k].Value.(*item))
	}
}

// drop forgets one entry, if it is there.
func (sh *Shelf) drop(k key) bool {
	el := sh.items[k]
	if el == nil {
		return false
	}
	it := sh.store.recent.Remove(el).(*item)
	delete(sh.items, k)
	sh.index(k, it.value, false)
	sh.store.used -= it.size
	return true
}

// clear forgets all entries.
func (sh *Shelf) clear() {
	for k := range sh.items {
		sh.drop(k)
	}
}
