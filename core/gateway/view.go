package gateway

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/serve"
)

// target is where something is: a server, and its name or URI there.
type target struct{ server, key string }

// source is one server as far as it is exported.
type source struct {
	id    string
	lists map[catalog.Kind][]item
	down  bool // its items are marked
	drop  bool // its items are not listed

	subscribes bool // it can be asked for updates
}

// view is what clients see: the merged catalog and the way back from it. It is
// immutable once it is built.
type view struct {
	catalog serve.Catalog
	filter  filter
	only    string              // the server if there is no more than one, else ""
	servers map[string]struct{} // by id
	down    map[string]struct{} // those of them that are
	// subscribes are those that can be asked for updates.
	subscribes map[string]struct{}

	byKey     map[catalog.Kind]map[string]target
	qualified map[target]struct{} // resources that carry their server
	templates []template
	offered   map[string]map[catalog.Kind]catalog.List // by server; in the order listed
}

// template is a listed template that URIs are compared with.
type template struct {
	target
	prefix  string // what every URI of it begins with
	pattern *regexp.Regexp
}

// Refusal is an item of a server that is not listed, or one to look at.
type Refusal struct {
	Server string
	Kind   catalog.Kind
	Key    string // as the server has it; hostile
	Reason string // one line for people
	Listed bool   // it is only suspicious
}

// newView merges the sources, which must be all configured servers, in any order.
// What is local has no server, comes first, and keeps its names.
func newView(local source, sources []source, f filter, refuse func(Refusal)) *view {
	sources = slices.SortedFunc(slices.Values(sources), func(a, b source) int { return strings.Compare(a.id, b.id) })
	v := &view{filter: f, servers: map[string]struct{}{}, down: map[string]struct{}{}, subscribes: map[string]struct{}{},
		offered: map[string]map[catalog.Kind]catalog.List{}, byKey: map[catalog.Kind]map[string]target{}, qualified: map[target]struct{}{}}
	ids := make([]string, len(sources))
	for i, s := range sources {
		ids[i] = s.id
		v.servers[s.id] = struct{}{}
		if s.down {
			v.down[s.id] = struct{}{}
		}
		if s.subscribes {
			v.subscribes[s.id] = struct{}{}
		}
	}
	if len(ids) == 1 {
		v.only = ids[0]
	}
	names := newNaming(ids)
	for _, k := range catalog.Kinds() {
		export := names.export
		if k == catalog.Resources || k == catalog.Templates {
			shared := sharedKeys(append(sources, local), k)
			export = func(server, uri string) string {
				if !shared[uri] && (len(ids) <= 1 || !strings.HasPrefix(uri, ownForm)) {
					return uri
				}
				if k == catalog.Resources {
					v.qualified[target{server, uri}] = struct{}{}
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

// sharedKeys are those that several servers list.
func sharedKeys(sources []source, k catalog.Kind) map[string]bool {
	shared := map[string]bool{} // false: listed by one
	for _, s := range sources {
		for _, it := range s.lists[k] {
			_, again := shared[it.key]
			shared[it.key] = again
		}
	}
	return shared
}

func (v *view) add(k catalog.Kind, s source, it item, exported string, refuse func(Refusal)) {
	if s.drop || s.id != "" && !v.filter.admits(exported, it.key) {
		return
	}
	if _, taken := v.byKey[k][exported]; taken {
		refuse(Refusal{Server: s.id, Kind: k, Key: it.key, Reason: "another item has the same name here"})
		return
	}
	t := target{s.id, it.key}
	if k == catalog.Templates && exported == it.key {
		v.compare(t, it.pattern)
	}
	v.byKey[k][exported] = t
	list := map[catalog.Kind]*[]json.RawMessage{catalog.Tools: &v.catalog.Tools, catalog.Prompts: &v.catalog.Prompts,
		catalog.Resources: &v.catalog.Resources, catalog.Templates: &v.catalog.Templates}[k]
	raw := it.as(exported, s.down)
	*list = append(*list, raw)
	if s.id != "" {
		v.offer(s.id)[k] = append(v.offer(s.id)[k], catalog.Item{Key: exported, Raw: raw, Digest: it.digest})
	}
}

// Bounds of what one server can make others wait for: to compare a URI takes time by
// its length and by the templates. Beyond them a URI needs its qualified form.
const (
	maxCompared  = 2048 // bytes of a URI
	maxTemplates = 256  // of a server
)

// compare has URIs compared with a template from now on. Those of a server are added
// one after the other.
func (v *view) compare(t target, pattern *regexp.Regexp) {
	if n := len(v.templates) - maxTemplates; n >= 0 && v.templates[n].server == t.server {
		return
	}
	prefix, _, _ := strings.Cut(t.key, "{")
	v.templates = append(v.templates, template{t, prefix, pattern})
}

// offer is what is listed of a server.
func (v *view) offer(server string) map[catalog.Kind]catalog.List {
	o, ok := v.offered[server]
	if !ok {
		o = map[catalog.Kind]catalog.List{}
		v.offered[server] = o
	}
	return o
}

// resource finds the server of a URI, which need not be listed.
func (v *view) resource(uri string) (target, bool) {
	t, ok := v.locate(uri)
	if ok && t.server == "" {
		return t, true
	}
	if !ok || !v.filter.admits(v.export(t), t.key) || matches(v.filter.deny, uri) {
		return target{}, false
	}
	return t, true
}

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
	return v.byTemplate(uri)
}

// byTemplate finds the server whose templates a URI belongs to, unless those of
// several servers claim it.
func (v *view) byTemplate(uri string) (found target, ok bool) {
	if len(uri) > maxCompared {
		return target{}, false
	}
	for _, t := range v.templates {
		if found.server == t.server || !strings.HasPrefix(uri, t.prefix) || !t.pattern.MatchString(uri) {
			continue
		}
		if ok {
			return target{}, false
		}
		found, ok = target{t.server, uri}, true
	}
	return found, ok
}

// export is the URI under which clients find a resource of a server.
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
	if strings.HasPrefix(t.key, ownForm) {
		return qualify(t.server, t.key)
	}
	if at, ok := v.locate(t.key); ok && at == t {
		return t.key
	}
	return qualify(t.server, t.key)
}
