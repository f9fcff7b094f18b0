package gateway

import (
	"slices"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// Names knows under which names and URIs a gateway exports what its servers offer: events that
// are stored carry them, so that an event means the same for ever, whatever is listed later. It
// learns of lists in the order in which events are stored, so it is never behind an event, as
// the served catalog may be. A resource keeps its own URI unless another server lists it, and one
// that is not listed if a template leads to it; a server that was not reached yet lists what it
// did when that was last recorded. The zero value is ready: give its methods to an engine, and
// itself to the gateway.
//
// Gateways that share a log must have the same servers, as the events of a server are named by
// the one that stores them.
type Names struct {
	mu     sync.Mutex // guards all below; held while the tracker publishes, so never for long
	naming naming
	ids    map[string]bool                  // the servers of the config
	local  map[catalog.Kind]map[string]bool // the gateway's own items
	lists  map[journal.ListName]catalog.List
	listed map[catalog.Kind]map[string]int // by URI or template: how many of ids, and the gateway, list it
	// templates holds the listed templates by which the gateway finds URIs that nobody lists, by server.
	// A server's are made when they are needed.
	templates map[string][]template
}

// start sets the gateway's own items.
func (n *Names) start(local source) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.local = map[catalog.Kind]map[string]bool{}
	for k, items := range local.lists {
		n.local[k] = map[string]bool{}
		for _, it := range items {
			n.local[k][it.key] = true
		}
	}
	n.countLocked()
}

// apply sets the servers.
func (n *Names) apply(ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.naming, n.ids = newNaming(ids, n.local[catalog.Tools]), map[string]bool{}
	for _, id := range ids {
		n.ids[id] = true
	}
	n.countLocked()
}

func (n *Names) countLocked() {
	n.listed = map[catalog.Kind]map[string]int{catalog.Resources: {}, catalog.Templates: {}}
	for k, counts := range n.listed {
		for key := range n.local[k] {
			counts[key]++
		}
	}
	for name, list := range n.lists {
		if n.ids[name.ServerID] {
			for _, it := range list {
				n.listed[name.Kind][it.Key]++
			}
		}
	}
}

// Listed takes over a list of a server, for [engine.Options.Listed].
func (n *Names) Listed(name journal.ListName, list catalog.List) {
	if name.Kind != catalog.Resources && name.Kind != catalog.Templates {
		return // the names of tools and prompts do not depend on who lists them
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lists == nil {
		n.lists = map[journal.ListName]catalog.List{}
	}
	was := n.lists[name]
	n.lists[name] = list
	if name.Kind == catalog.Templates {
		delete(n.templates, name.ServerID)
	}
	if !n.ids[name.ServerID] {
		return
	}
	d, counts := catalog.Diff(was, list), n.listed[name.Kind]
	for _, key := range d.Removed {
		if counts[key]--; counts[key] == 0 {
			delete(counts, key)
		}
	}
	for _, key := range d.Added {
		counts[key]++
	}
}

// Exported returns the names of what an event is about that differ from the server's own; nil
// if it is about nothing that the gateway exports. It is for [engine.Options.Exported].
func (n *Names) Exported(e *event.Event) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	k, keys := catalog.Resources, []string{e.ResourceURI}
	if list, ok := e.Payload.(event.ListChanged); ok {
		k, keys = list.List, slices.Concat(list.Added, list.Removed, list.Changed)
	} else if e.ResourceURI == "" {
		return nil
	}
	if !n.ids[e.ServerID] {
		return nil
	}
	_, updated := e.Payload.(event.ResourceUpdated)
	names := map[string]string{}
	for _, key := range keys {
		t := target{e.ServerID, key}
		name := n.exportLocked(k, t)
		if updated && name == key && !n.listsLocked(k, t) && !n.leadsLocked(t) {
			name = qualify(t.server, key)
		}
		if name != key {
			names[key] = name
		}
	}
	return names
}

// leadsLocked reports whether a URI that its server does not list leads clients to it: one of its
// templates matches, and none of another server.
func (n *Names) leadsLocked(t target) bool {
	if len(n.ids) <= 1 {
		return true
	}
	leads := false
	for id := range n.ids {
		if len(t.key) > maxCompared || !slices.ContainsFunc(n.templatesLocked(id), func(o template) bool { return o.matches(t.key) }) {
			continue
		}
		if id != t.server {
			return false
		}
		leads = true
	}
	return leads
}

func (n *Names) templatesLocked(server string) []template {
	all, made := n.templates[server]
	if made {
		return all
	}
	for _, it := range n.lists[journal.ListName{ServerID: server, Kind: catalog.Templates}] {
		if len(all) == maxTemplates {
			break
		}
		if pattern, err := uritemplate.Pattern(it.Key); err == nil && keepsKey(catalog.Templates, it.Key) {
			prefix, _, _ := strings.Cut(it.Key, "{")
			all = append(all, template{target{server, it.Key}, prefix, pattern})
		}
	}
	if n.templates == nil {
		n.templates = map[string][]template{}
	}
	n.templates[server] = all
	return all
}

func (n *Names) listsLocked(k catalog.Kind, t target) bool {
	_, lists := n.lists[journal.ListName{ServerID: t.server, Kind: k}].Get(t.key)
	return lists
}

// export returns the name or URI under which clients find an item of a server, whether it is
// listed or not.
func (n *Names) export(k catalog.Kind, t target) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.exportLocked(k, t)
}

func (n *Names) exportLocked(k catalog.Kind, t target) string {
	if k != catalog.Resources && k != catalog.Templates {
		return n.naming.export(t.server, t.key)
	}
	others := n.listed[k][t.key]
	if n.ids[t.server] && n.listsLocked(k, t) {
		others--
	}
	if others > 0 || len(n.ids) > 1 && !keepsKey(k, t.key) {
		return qualify(t.server, t.key)
	}
	return t.key
}

// keepsKey reports whether a resource or template can be exported as it is beside the items of other
// servers.
func keepsKey(k catalog.Kind, key string) bool {
	return !isQualified(key) && (k != catalog.Templates || hasPrefix(key))
}

// known returns what a server lists, or did when it was last reached.
func (n *Names) known(server string, k catalog.Kind) catalog.List {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lists[journal.ListName{ServerID: server, Kind: k}]
}
