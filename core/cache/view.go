package cache

import (
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// View is the readers' side of what is kept of one server. What its getters return
// is the caller's: nothing that is done to it changes what is kept. The zero View
// is not usable, see [Store.View].
type View struct {
	store  *Store
	server string
}

// Resource returns the content that was read last of a URI, false if none is kept.
func (v View) Resource(uri string) (Resource, bool) { return get[Resource](v, catalog.Resources, uri) }

// Template returns the content that was read last by a URI template, with the
// parameters that it was read for; false if none is kept.
func (v View) Template(template string) (Resource, bool) {
	return get[Resource](v, catalog.Templates, template)
}

// Prompt returns the answer that was got last for a prompt, with its arguments;
// false if none is kept.
func (v View) Prompt(name string) (Prompt, bool) { return get[Prompt](v, catalog.Prompts, name) }

// ToolResult returns how the last call of a tool ended; false if that is not kept.
func (v View) ToolResult(name string) (ToolResult, bool) {
	return get[ToolResult](v, catalog.Tools, name)
}

// ClearResource forgets the content of a URI. It reports whether there was any.
func (v View) ClearResource(uri string) bool { return v.clear(catalog.Resources, uri) }

// ClearTemplate forgets what was read by a URI template.
func (v View) ClearTemplate(template string) bool { return v.clear(catalog.Templates, template) }

// ClearPrompt forgets a prompt.
func (v View) ClearPrompt(name string) bool { return v.clear(catalog.Prompts, name) }

// ClearToolResult forgets how the last call of a tool ended.
func (v View) ClearToolResult(name string) bool { return v.clear(catalog.Tools, name) }

// ClearAll forgets all that is kept of the server. Lists, subscriptions and requests
// under way are untouched.
func (v View) ClearAll() {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	if sh := v.store.shelves[v.server]; sh != nil {
		sh.clear()
	}
}

// Keys returns, sorted, under which URIs, templates or names something is kept.
func (v View) Keys(kind catalog.Kind) []string {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	var names []string
	if sh := v.store.shelves[v.server]; sh != nil {
		for k := range sh.items {
			if k.kind == kind {
				names = append(names, k.name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Stats are sums over a whole store.
type Stats struct {
	Entries int
	Bytes   int64  // about what they take
	Max     int64  // that they may take
	Evicted uint64 // entries that had to make room
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
	sh := v.store.shelves[v.server]
	return sh != nil && sh.drop(key{kind, name})
}

// get returns an entry and notes that it was used.
func get[E entry](v View, kind catalog.Kind, name string) (E, bool) {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	var none E
	sh := v.store.shelves[v.server]
	if sh == nil {
		return none, false
	}
	el := sh.items[key{kind, name}]
	if el == nil {
		return none, false
	}
	v.store.recent.MoveToFront(el)
	return el.Value.(*item).value.own().(E), true
}
