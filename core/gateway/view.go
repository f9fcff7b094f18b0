package gateway

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// target identifies an item by its server and its name or URI there.
type target struct{ server, key string }

// source holds what a server contributes to the catalog.
type source struct {
	id    string
	lists map[catalog.Kind][]item
	// known holds its resources and templates as they were last recorded, refused ones too: while
	// it was not reached, nobody else gets its URIs.
	known map[catalog.Kind]catalog.List
	down  bool // it is unreachable: its items are marked
	drop  bool // it is unreachable: its items are not listed

	subscribes bool // it supports ad-hoc subscriptions, see offersUpdates
	about      about
	tracks     func(k catalog.Kind, key string) bool // events about the item are published
	asks       bool                                  // it is connected in the legacy era, in which servers send requests
	modern     bool                                  // it is connected in the modern era
	// other is the era that it speaks besides the one in which it is connected, or may speak;
	// "" if it speaks none.
	other session.Era
}

// view is the merged catalog and the mapping from exported names to targets. It is
// immutable once built.
type view struct {
	catalog mcpserver.Catalog
	filter  filter
	names   naming
	only    string // the id of the server if there is exactly one, else ""
	// servers holds the source.tracks of every server, by id.
	servers map[string]func(k catalog.Kind, key string) bool
	down    map[string]struct{} // the servers that are down
	// subscribes holds the servers that support ad-hoc subscriptions.
	subscribes map[string]struct{}

	byKey     map[catalog.Kind]map[string]target // by exported name or URI
	owners    map[string]owner                   // by URI: who lists a resource, exported or not
	qualified map[target]struct{}                // resources exported in our own form
	templates []template
	// asks and modern hold the fields of the same names of every source, by server id.
	asks, modern map[string]bool
	other        map[string]session.Era // source.other, by server id
	// asTask holds the tools of servers of the legacy era that must be called as tasks.
	asTask     map[target]struct{}
	variants   map[string]*view // for clients with certain capabilities, see keyOf
	listsTasks []string         // the ids of servers that list their tasks, sorted
	// extensions holds the servers that declare each extension, sorted by id.
	extensions map[string][]string
	offered    map[string]map[catalog.Kind]catalog.List // the exported items, by server
	// filtered holds the items that the filter left out.
	filtered []exportedItem
	// refused holds the items that were left out because they could break clients.
	refused map[catalog.Kind]map[target]struct{}
}

// exportedItem is an item and the name or URI that it has, or would have, in the gateway.
type exportedItem struct {
	kind catalog.Kind
	target
	exported string
}

// template is a listed template that the URIs of requests are matched with.
type template struct {
	target
	prefix  string // the literal text before the first expression
	pattern *regexp.Regexp
}

func (t template) matches(uri string) bool {
	return strings.HasPrefix(uri, t.prefix) && t.pattern.MatchString(uri)
}

// owner says who lists a resource.
type owner struct {
	server string
	shared bool // several servers list it
}

// newView merges the sources, which must be all configured servers, in any order.
// Local items have no server, come first and keep their names.
func newView(local source, sources []source, f filter, refuse func(Refusal)) *view {
	sources = slices.SortedFunc(slices.Values(sources), func(a, b source) int { return strings.Compare(a.id, b.id) })
	v := &view{filter: f, servers: map[string]func(catalog.Kind, string) bool{}, down: map[string]struct{}{}, subscribes: map[string]struct{}{},
		offered: map[string]map[catalog.Kind]catalog.List{}, byKey: map[catalog.Kind]map[string]target{}, qualified: map[target]struct{}{}, extensions: map[string][]string{}, asTask: map[target]struct{}{}, asks: map[string]bool{}, modern: map[string]bool{}, other: map[string]session.Era{}}
	ids := make([]string, len(sources))
	for i, s := range sources {
		ids[i] = s.id
		v.servers[s.id] = s.tracks
		v.asks[s.id], v.modern[s.id], v.other[s.id] = s.asks, s.modern, s.other
		if s.down {
			v.down[s.id] = struct{}{}
		}
		if isObject(s.about.tasks["list"]) {
			v.listsTasks = append(v.listsTasks, s.id)
		}
		if s.subscribes {
			v.subscribes[s.id] = struct{}{}
		}
	}
	if len(ids) == 1 {
		v.only = ids[0]
	}
	own := map[string]bool{}
	for _, it := range local.lists[catalog.Tools] {
		own[it.key] = true
	}
	v.names = newNaming(ids, own)
	v.owners = ownersOf(append(sources, local), catalog.Resources)
	templates := ownersOf(append(sources, local), catalog.Templates)
	for _, k := range []catalog.Kind{catalog.Resources, catalog.Templates, catalog.Tools, catalog.Prompts} {
		export := v.names.export
		switch k {
		case catalog.Resources:
			export = func(server, uri string) string {
				if !v.owners[uri].shared && (len(ids) <= 1 || keepsKey(k, uri)) {
					return uri
				}
				v.qualified[target{server, uri}] = struct{}{}
				return qualify(server, uri)
			}
		case catalog.Templates:
			export = func(server, uri string) string {
				if !templates[uri].shared && (len(ids) <= 1 || keepsKey(k, uri)) {
					return uri
				}
				return qualify(server, uri)
			}
		}
		v.byKey[k] = map[string]target{}
		for _, it := range local.lists[k] {
			v.add(k, local, it, it.key, refuse)
		}
		for _, s := range sources {
			for _, it := range s.lists[k] {
				v.add(k, s, it, export(s.id, it.key), refuse)
			}
		}
	}
	return v
}

// ownersOf returns, for each key of a kind, which server lists it.
func ownersOf(sources []source, k catalog.Kind) map[string]owner {
	owners := map[string]owner{}
	for _, s := range sources {
		add := func(key string) {
			first, listed := owners[key]
			owners[key] = owner{s.id, listed && (first.shared || first.server != s.id)}
		}
		for _, it := range s.lists[k] {
			add(it.key)
		}
		for _, it := range s.known[k] {
			add(it.Key)
		}
	}
	return owners
}

// hasPrefix reports whether a URI template has literal text beyond the scheme. A template
// without it matches almost anything, so it is exported in qualified form.
func hasPrefix(template string) bool {
	prefix, _, _ := strings.Cut(template, "{")
	return strings.Trim(prefix[schemeEnd(prefix):], "/") != "" && schemeEnd(prefix) > 0
}

func (v *view) add(k catalog.Kind, s source, it item, exported string, refuse func(Refusal)) {
	t := target{s.id, it.key}
	if s.drop {
		return
	}
	if s.id != "" && !v.filter.admits(k, t, exported) {
		v.filtered = append(v.filtered, exportedItem{k, t, exported})
		return
	}
	if _, taken := v.byKey[k][exported]; taken {
		refuse(Refusal{Server: s.id, Kind: k, Key: it.key, Reason: "another item has the same name in the gateway"})
		return
	}
	if k == catalog.Templates && exported == it.key {
		v.compare(t, it.pattern)
	}
	v.byKey[k][exported] = t
	if it.asTask && s.about.tasks != nil {
		v.asTask[t] = struct{}{}
	}
	list := map[catalog.Kind]*[]json.RawMessage{catalog.Tools: &v.catalog.Tools, catalog.Prompts: &v.catalog.Prompts,
		catalog.Resources: &v.catalog.Resources, catalog.Templates: &v.catalog.Templates}[k]
	ui := ""
	if it.ui != "" && s.id != "" {
		ui = v.export(target{s.id, it.ui}) // newView adds resources before tools
	}
	raw := it.as(exported, ui, s.down)
	*list = append(*list, raw)
	if s.id != "" {
		v.offer(s.id)[k] = append(v.offer(s.id)[k], catalog.Item{Key: exported, Raw: raw, Digest: it.digest})
	}
}

// Bounds of the time for which one server can delay requests to others: matching a URI
// takes time proportional to its length and to the number of templates. Beyond them, a
// URI is found only in its qualified form.
const (
	maxCompared  = 2048 // bytes of a URI
	maxTemplates = 256  // templates of a server
)

// compare adds a template that URIs are matched with. The templates of a server must
// be added in sequence.
func (v *view) compare(t target, pattern *regexp.Regexp) {
	if n := len(v.templates) - maxTemplates; n >= 0 && v.templates[n].server == t.server {
		return
	}
	prefix, _, _ := strings.Cut(t.key, "{")
	v.templates = append(v.templates, template{t, prefix, pattern})
}

// offer returns the lists of a server as exported, to be filled.
func (v *view) offer(server string) map[catalog.Kind]catalog.List {
	o, ok := v.offered[server]
	if !ok {
		o = map[catalog.Kind]catalog.List{}
		v.offered[server] = o
	}
	return o
}

// resource returns the target of a URI, which need not be listed, if the filter admits
// it.
func (v *view) resource(uri string) (target, bool) {
	t, ok := v.locate(uri)
	if ok && t.server == "" {
		return t, true
	}
	if !ok || !v.filter.admits(catalog.Resources, t, v.export(t)) {
		return target{}, false
	}
	return t, true
}

// locate returns the target of a URI that a client sent, whether the filter admits it or
// not.
func (v *view) locate(uri string) (target, bool) {
	if t, ok := v.byKey[catalog.Resources][uri]; ok {
		return t, true
	}
	if server, original, ok := unqualify(uri); ok {
		if _, known := v.servers[server]; known {
			return target{server, original}, true
		}
	}
	if v.only != "" {
		return target{v.only, uri}, true
	}
	if o, listed := v.owners[uri]; listed { // the resource is not exported, or in qualified form
		return target{o.server, uri}, !o.shared
	}
	return v.byTemplate(uri)
}

// byTemplate returns the target of a URI that matches templates of exactly one server.
func (v *view) byTemplate(uri string) (found target, ok bool) {
	if len(uri) > maxCompared {
		return target{}, false
	}
	for _, t := range v.templates {
		if found.server == t.server || !t.matches(uri) {
			continue
		}
		if ok {
			return target{}, false
		}
		found, ok = target{t.server, uri}, true
	}
	return found, ok
}

// export returns the URI under which clients find a resource of a server.
func (v *view) export(t target) string {
	if t.server == "" {
		return t.key
	}
	if _, ok := v.qualified[t]; ok {
		return qualify(t.server, t.key)
	}
	if v.only != "" {
		return t.key
	}
	if isQualified(t.key) {
		return qualify(t.server, t.key)
	}
	if at, ok := v.locate(t.key); ok && at == t {
		return t.key
	}
	return qualify(t.server, t.key)
}
