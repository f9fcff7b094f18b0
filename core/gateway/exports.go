package gateway

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// target identifies an item by its server and the server's own name or URI.
type target struct{ server, key string }

// contribution holds everything that a server contributes to the catalog.
type contribution struct {
	id string
	serverState
	lists map[catalog.Kind][]item
	// known contains the most recently recorded resources, templates and skills, including refused items,
	// so that no other server can use their URIs while this server is unreachable.
	known map[catalog.Kind]catalog.List
	tools map[string]config.Tool // how clients see the tools
	drop  bool                   // the server is down, and its items must not be listed
	info  serverInfo
}

// serverState is the state of an exported server, apart from its items.
type serverState struct {
	down       bool        // the server is unreachable, and its items are marked
	subscribes bool        // the server supports ad-hoc subscriptions, see offersUpdates
	asks       bool        // connected in the legacy era, in which servers can send requests
	modern     bool        // connected in the modern era
	other      session.Era // the other era that the server supports; empty if none
	compared               // with the lock
}

// exports is what clients can use: the merged catalog, together with the mapping from exported names to targets. It is
// immutable once built.
type exports struct {
	catalog mcpserver.Catalog
	filter  filter
	only    string                    // id of the server if there is exactly one; otherwise empty
	servers map[string]exportedServer // keyed by server id
	byAlias map[string]string         // ids of the servers, keyed by exported id

	byKey     map[catalog.Kind]map[string]target // keyed by exported name or URI
	owners    map[string]owner                   // which server lists a resource, or has it in a skill, by URI, whether exported or not
	qualified map[target]struct{}                // resources exported in qualified form
	templates []template

	listsTasks []string            // ids of the servers that support tasks/list, sorted
	extensions map[string][]string // sorted ids of the servers that declare each extension
	filtered   []exportedItem      // items that the filter hides
	refused    map[itemID]bool     // items that are not listed; true if they are invalid, false if they are only not approved

	held    map[string][]template // templates that clients must not use, by server
	entries *[]config.Server      // the config that they were made for
	lock    any                   // the version of the lock that it was made for
}

// exportedServer is the part of exports that concerns one server.
type exportedServer struct {
	serverState
	exported map[catalog.Kind]catalog.List // the server's items in their exported form
}

// exportedItem is an item, with the name or URI that it has, or would have, in the gateway.
type exportedItem struct {
	itemID
	exported string
}

// itemID identifies an item of any kind.
type itemID struct {
	kind catalog.Kind
	target
}

// template is a listed template that is matched against the URIs in requests.
type template struct {
	target
	prefix  string // the literal text before the first expression
	pattern *regexp.Regexp
}

func newTemplate(t target, pattern *regexp.Regexp) template {
	prefix, _, _ := strings.Cut(t.key, "{")
	return template{t, prefix, pattern}
}

func (t template) matches(uri string) bool {
	return strings.HasPrefix(uri, t.prefix) && t.pattern.MatchString(uri)
}

// owner specifies which server lists a resource.
type owner struct {
	server string
	shared bool // several servers list it
}

// newExports merges the contributions of all enabled servers, in any order. Local items have no
// server, take precedence and keep their names.
func newExports(local contribution, parts []contribution, f filter, refuse func(Refusal)) *exports {
	parts = slices.Clone(parts)
	sort.Slice(parts, func(i, j int) bool { return f.alias.compare(parts[i].id, parts[j].id) < 0 })
	v := &exports{filter: f, servers: map[string]exportedServer{}, byAlias: map[string]string{}, byKey: map[catalog.Kind]map[string]target{}, qualified: map[target]struct{}{},
		extensions: map[string][]string{}, held: map[string][]template{}}
	ids := make([]string, len(parts))
	for i, c := range parts {
		ids[i] = c.id
		v.byAlias[f.alias.of(c.id)] = c.id
		v.servers[c.id] = exportedServer{c.serverState, map[catalog.Kind]catalog.List{}}
		if isObject(c.info.tasks["list"]) {
			v.listsTasks = append(v.listsTasks, c.id)
		}
	}
	if len(ids) == 1 {
		v.only = ids[0]
	}
	own := map[string]bool{}
	for _, it := range local.lists[catalog.Tools] {
		own[it.key] = true
	}
	names := newNaming(f.alias.all(ids), own)
	for _, c := range parts {
		names.rename(f.alias.of(c.id), c.tools)
	}
	v.owners = ownersOf(append(parts, local), catalog.Resources)
	skills := v.ownSkills(parts)
	for _, k := range []catalog.Kind{catalog.Resources, catalog.Templates, catalog.Skills, catalog.Tools, catalog.Prompts} {
		export := func(server, name string) string { return names.export(f.alias.of(server), name) }
		switch k {
		case catalog.Tools:
			export = func(server, name string) string { return names.tool(f.alias.of(server), name) }
		case catalog.Skills:
			export = func(server, uri string) string {
				if t := (target{server, uri}); skills[t] {
					return f.alias.qualify(t)
				}
				return uri
			}
		case catalog.Resources, catalog.Templates:
			owners := v.owners
			if k == catalog.Templates {
				owners = ownersOf(append(parts, local), k)
			}
			export = func(server, uri string) string {
				if !owners[uri].shared && (len(ids) <= 1 || keepsKey(k, uri)) {
					return uri
				}
				if k == catalog.Resources {
					v.qualified[target{server, uri}] = struct{}{}
				}
				return f.alias.qualify(target{server, uri})
			}
		}
		v.byKey[k] = map[string]target{}
		for _, it := range local.lists[k] {
			v.add(k, local, it, it.key, refuse)
		}
		for _, hidden := range []bool{false, true} { // hidden items take no names from others
			for _, c := range parts {
				for _, it := range c.lists[k] {
					if c.verdict.Hides(k, it.key) == hidden {
						v.add(k, c, it, export(c.id, it.key), refuse)
					}
				}
			}
		}
	}
	return v
}

// ownersOf maps each key of a kind to the server that lists it.
func ownersOf(parts []contribution, k catalog.Kind) map[string]owner {
	owners := map[string]owner{}
	for _, c := range parts {
		add := func(key string) {
			first, listed := owners[key]
			owners[key] = owner{c.id, listed && (first.shared || first.server != c.id)}
		}
		for _, it := range c.lists[k] {
			add(it.key)
		}
		for _, it := range c.known[k] {
			add(it.Key)
		}
	}
	return owners
}

// add exports an item, unless the filter hides it or its name is already used.
func (v *exports) add(k catalog.Kind, c contribution, it item, exported string, refuse func(Refusal)) {
	t := target{c.id, it.key}
	if c.drop {
		return
	}
	if c.id != "" && (!v.filter.admits(k, t, exported) || it.skill != nil && !v.admitsSkill(c.id, it.skill, exported)) {
		v.filtered = append(v.filtered, exportedItem{itemID{k, t}, exported})
		return
	}
	// A server that has changed a skill no longer has the files of the approved one.
	hidden := c.verdict.Hides(k, it.key) || k == catalog.Skills && c.verdict.Refuse(k, it.key) != nil
	if k == catalog.Templates && c.verdict.Refuse(k, it.key) != nil {
		v.held[c.id] = append(v.held[c.id], newTemplate(t, it.pattern))
	}
	if _, taken := v.byKey[k][exported]; taken {
		if hidden {
			return
		}
		refuse(Refusal{Server: c.id, Kind: k, Key: it.key, Reason: "another item has the same name in the gateway"})
		return
	}
	v.byKey[k][exported] = t
	if hidden {
		return // requests for it are refused
	}
	if k == catalog.Templates && exported == it.key {
		v.addTemplate(t, it.pattern)
	}
	list := map[catalog.Kind]*[]json.RawMessage{catalog.Tools: &v.catalog.Tools, catalog.Prompts: &v.catalog.Prompts,
		catalog.Resources: &v.catalog.Resources, catalog.Templates: &v.catalog.Templates, catalog.Skills: &v.catalog.Skills}[k]
	ui := ""
	if it.ui != "" && c.id != "" {
		ui = v.export(target{c.id, it.ui}) // newExports has already added the resources
	}
	raw := it.as(exported, ui, c.down)
	*list = append(*list, raw)
	if c.id != "" {
		lists := v.servers[c.id].exported
		lists[k] = append(lists[k], catalog.Item{Key: exported, Raw: raw, Digest: cmp.Or(it.offered, it.digest)})
	}
}

// Limits on how long one server can delay requests to others: the time to match a URI is
// proportional to its length and to the number of templates. Beyond these limits, only qualified
// URIs are recognised.
const (
	maxCompared  = 2048 // maximum length of a URI, in bytes
	maxTemplates = 256  // maximum number of templates per server
)

// addTemplate adds a template to match against URIs. The templates of a server must be added
// consecutively.
func (v *exports) addTemplate(t target, pattern *regexp.Regexp) {
	if n := len(v.templates) - maxTemplates; n >= 0 && v.templates[n].server == t.server {
		return
	}
	v.templates = append(v.templates, newTemplate(t, pattern))
}

// resource returns the target of a URI, listed or not, provided that the filter admits it.
func (v *exports) resource(uri string) (target, bool) {
	t, ok := v.locate(uri)
	if ok && t.server == "" {
		return t, true
	}
	if !ok || !v.filter.admits(catalog.Resources, t, v.export(t)) {
		return target{}, false
	}
	return t, true
}

// locate returns the target of a URI sent by a client. It does not apply the filter.
func (v *exports) locate(uri string) (target, bool) {
	if t, ok := v.byKey[catalog.Resources][uri]; ok {
		return t, true
	}
	if exported, original, ok := unqualify(uri); ok {
		if server, known := v.byAlias[exported]; known {
			return target{server, original}, true
		}
	}
	if v.only != "" {
		return target{v.only, uri}, true
	}
	if o, listed := v.owners[uri]; listed { // the resource is not exported, or is exported in qualified form
		return target{o.server, uri}, !o.shared
	}
	return v.byTemplate(uri)
}

// byTemplate returns the target of a URI if exactly one server has templates that match it.
func (v *exports) byTemplate(uri string) (found target, ok bool) {
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

// export returns the URI by which clients can read a resource of a server.
func (v *exports) export(t target) string {
	_, qualified := v.qualified[t]
	switch {
	case t.server == "", !qualified && v.only != "":
		return t.key
	case qualified, isQualified(t.key):
		return v.filter.alias.qualify(t)
	}
	if at, ok := v.locate(t.key); ok && at == t {
		return t.key
	}
	return v.filter.alias.qualify(t)
}

// tracks reports whether the config requests events about an item of a server.
func tracks(srv config.Server, k catalog.Kind, key string) bool {
	return srv.Tracks(k) && (k != catalog.Resources || srv.Selects(key))
}

// ExportsServer reports whether the server with this id in the tracker is exported, so that clients may receive events about
// it.
func (g *Gateway) ExportsServer(id string) bool {
	_, ok := g.exports.Load().servers[id]
	return ok
}

// Exports reports whether clients may receive events about an item of a server, which is specified by
// its id in the tracker, and returns the exported name or URI of the item: stored if it is not empty,
// otherwise the current one. The item need not be listed any longer. Clients may receive the events if
// the config tracks the item, the filter admits it, it was not refused as invalid, and it is approved. An
// item that is not listed is approved if the lock has it, or if additions need no approval. A resource
// need not be listed to be read, so its updates are exported also if the lock does not have it.
func (g *Gateway) Exports(server string, k catalog.Kind, key, stored string) (exported string, ok bool) {
	v := g.exports.Load()
	exported, ok = g.admits(v, server, k, key, stored)
	_, refused := v.refused[itemID{k, target{server, key}}]
	srv := v.servers[server]
	_, listed := catalog.List(srv.listed[k]).Get(key)
	known := k == catalog.Resources || listed || srv.verdict.Knows(lock.Section(k), key)
	return exported, ok && !refused && known && !srv.verdict.Hides(k, key)
}

// Unapproved is like Exports, but the item need not be approved.
func (g *Gateway) Unapproved(server string, k catalog.Kind, key, stored string) (exported string, ok bool) {
	v := g.exports.Load()
	exported, ok = g.admits(v, server, k, key, stored)
	return exported, ok && !v.refused[itemID{k, target{server, key}}]
}

// admits reports whether the config tracks an item and the filter admits it; see Exports.
func (g *Gateway) admits(v *exports, server string, k catalog.Kind, key, stored string) (exported string, ok bool) {
	if srv, known := v.servers[server]; !known || !tracks(srv.entry, k, key) {
		return "", false
	}
	t := target{server, key}
	if exported = stored; exported == "" {
		exported = g.names.export(k, t)
	}
	if !v.filter.admits(k, t, exported) {
		return "", false
	}
	return exported, true
}

// Capabilities returns the exported items of all servers, for a capability index.
func (g *Gateway) Capabilities() capindex.Capabilities {
	v := g.exports.Load()
	snap := g.tracker.Snapshot()
	var out capindex.Capabilities
	for _, id := range slices.SortedFunc(maps.Keys(v.servers), v.filter.alias.compare) {
		st, _ := snap.Server(id)
		s := capindex.ServerCapabilities{ID: v.filter.alias.of(id), State: string(st.State)}
		if !v.servers[id].verdict.Enforced() { // as in describeAs
			s.Name, s.Version = st.Info.ServerName, st.Info.ServerVersion
		}
		s.Lists = make(map[catalog.Kind]catalog.List, len(v.servers[id].exported))
		for k, list := range v.servers[id].exported {
			s.Lists[k] = catalog.NewList(slices.Clone(list)) // sorted by key, as the index requires
		}
		if a := g.httpCatalog(id); a != nil {
			s.Name, s.Version, s.State = "", a.up.Catalog().Build, string(event.Backoff)
			if a.up.Status().Up {
				s.State = string(event.Ready)
			}
		}
		for _, r := range st.Resources {
			if r.Last == nil {
				continue
			}
			t := target{id, r.URI}
			if _, isUpdate := r.Last.Payload.(event.ResourceUpdated); isUpdate && v.filter.admits(catalog.Resources, t, v.export(t)) {
				s.Updates = append(s.Updates, capindex.Update{URI: v.export(t), Time: r.Last.Timestamp})
			}
		}
		out.Servers = append(out.Servers, s)
	}
	return out
}

// Limits for the information about servers that clients receive when they connect.
const (
	maxInstructions = 8 << 10  // in bytes, for all servers together
	maxHeading      = 96       // bytes for a server's heading in the instructions, including surrounding lines
	maxExtensions   = 64       // maximum number of extensions per server
	maxExtension    = 16 << 10 // maximum size of an extension's settings, in bytes
)

// serverInfo holds the information that a server declares about itself when a session starts.
type serverInfo struct {
	instructions string
	logging      bool                       // the server sends log messages
	tasks        map[string]json.RawMessage // legacy capability "tasks"; nil if tools cannot be called as tasks
	extensions   map[string]json.RawMessage
}

func serverInfoOf(info session.Info) serverInfo {
	a := serverInfo{instructions: strings.TrimSpace(printable.Visible(info.Instructions))}
	var caps struct {
		Extensions json.RawMessage `json:"extensions"`
		Logging    json.RawMessage `json:"logging"`
		Tasks      json.RawMessage `json:"tasks"`
	}
	_ = json.Unmarshal(info.RawCapabilities, &caps) // after an error, there are no extensions
	a.logging = isObject(caps.Logging)
	if tasks := fields(caps.Tasks); info.Era == session.EraLegacy && isObject(fields(fields(tasks["requests"])["tools"])["call"]) {
		a.tasks = tasks
	}
	for _, m := range rawjson.Members(caps.Extensions) {
		if len(a.extensions) == maxExtensions {
			break
		}
		if len(m.Name) <= maxName && len(m.Value) <= maxExtension && isObject(m.Value) && catalog.Depth(m.Value) <= catalog.MaxDepth {
			if a.extensions == nil {
				a.extensions = map[string]json.RawMessage{}
			}
			a.extensions[m.Name] = m.Value
		}
	}
	return a
}

// describe merges the descriptions of the servers into the description of the gateway. own contains
// the gateway's own instructions.
func (v *exports) describe(own string, parts []contribution) mcpserver.Description {
	d := mcpserver.Description{Instructions: own, Extensions: map[string]json.RawMessage{}}
	speakers := 0
	for _, c := range parts {
		if c.info.instructions != "" {
			speakers++
		}
	}
	tasks := map[string]json.RawMessage{}
	for _, c := range parts {
		d.Logging = d.Logging || c.info.logging
		if c.info.tasks != nil {
			tasks["requests"] = json.RawMessage(`{"tools":{"call":{}}}`)
		}
		for _, method := range []string{"list", "cancel"} {
			if isObject(c.info.tasks[method]) {
				tasks[method] = json.RawMessage(`{}`)
			}
		}
		for id, settings := range c.info.extensions {
			if v.extensions[id] = append(v.extensions[id], c.id); len(v.extensions[id]) == 1 {
				d.Extensions[id] = settings
			} else if id == mcp.ExtensionSkills {
				d.Extensions[id] = mergeSkills(d.Extensions[id], settings)
			}
		}
		if c.info.instructions == "" {
			continue
		}
		// Every server has an equal share, so that a long text does not displace others.
		text := shorten(c.info.instructions, (maxInstructions-len(own))/speakers-maxHeading)
		if v.only == "" {
			text = "# Server " + shorten(printable.Visible(v.filter.alias.of(c.id)), maxHeading-16) + "\n\n" + text
		}
		if d.Instructions != "" {
			d.Instructions += "\n\n"
		}
		d.Instructions += text
	}
	if len(tasks) > 0 {
		d.Tasks = encode(tasks)
	}
	return d
}

// describeAs describes the gateway as its only server. A locked server does not name itself, because the lock
// does not have its name, and hosts may show the name to models.
func describeAs(d *mcpserver.Description, info session.Info, locked bool) {
	if info.ServerName == "" {
		return
	}
	d.Offers = &info.Capabilities
	if locked {
		return
	}
	line := func(s string) string { return printable.Line(s, 128) }
	d.Info = mcp.Implementation{Name: line(info.ServerName), Title: line(info.ServerTitle), Version: line(info.ServerVersion)}
}

// shorten truncates a text to limit bytes at a rune boundary and appends an ellipsis.
func shorten(s string, limit int) string {
	if limit = max(limit, 0); len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:max(0, limit-len("…"))], "") + "…"
}
