package cache

import (
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// View is read access to the cache of one server. Its getters return copies. The zero
// View is not usable, see [Store.View].
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

// Stats are totals over all sessions of a store.
type Stats struct {
	Entries int
	Bytes   int64  // roughly
	Max     int64  // the bound of Bytes
	Evicted uint64 // entries removed to make room
}

// Stats returns how full the store is.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Entries: s.recent.Len(), Bytes: s.used, Max: s.max, Evicted: s.evicted}
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
