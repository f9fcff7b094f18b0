package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/skill"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

const (
	maxExported = 64 // maximum length of a name; the limit of the strictest clients
	hashDigits  = 8
)

// naming determines the exported names of tools and prompts. They depend only on the set of servers
// and on the gateway's own tools.
type naming struct {
	asIs bool // at most one server is configured, so names stay unchanged
	// plain contains the servers whose ID_NAME cannot collide with that of another server: the id
	// is a valid name, and no prefix of it that ends before a "_" is the id of a server.
	plain map[string]bool
	taken map[string]bool // names of the gateway's own tools
	// tools contains the tools of servers that have other names for clients, by exported id.
	tools map[string]map[string]config.Tool
}

// rename sets the configured names of the tools of a server.
func (n *naming) rename(server string, tools map[string]config.Tool) {
	if len(tools) == 0 {
		return
	}
	if n.tools == nil {
		n.tools = map[string]map[string]config.Tool{}
	}
	n.tools[server] = tools
}

// tool returns the exported name of a tool of a server. A tool whose own name is the configured name of another
// tool gets a name with a hash that no other item has, so that no server can take a configured name.
func (n naming) tool(server, name string) string {
	tools := n.tools[server]
	if configured := tools[name].Name; configured != "" {
		return n.export(server, configured)
	}
	for _, other := range tools {
		if other.Name == name {
			return hashed(server, name+"\x00")
		}
	}
	return n.export(server, name)
}

func newNaming(servers []string, taken map[string]bool) naming {
	n := naming{asIs: len(servers) <= 1, plain: make(map[string]bool, len(servers)), taken: taken}
	all := make(map[string]bool, len(servers))
	for _, id := range servers {
		all[id] = true
	}
	for _, id := range servers {
		n.plain[id] = isName(id)
		for i, c := range []byte(id) {
			if c == '_' && all[id[:i]] {
				n.plain[id] = false
			}
		}
	}
	return n
}

// export returns the exported name of a tool or prompt of a server, with the name that it has for clients.
func (n naming) export(server, name string) string {
	if n.asIs && !n.taken[name] {
		return name
	}
	full := server + "_" + name
	if !n.asIs && n.plain[server] && isName(name) && len(full) <= maxExported && !looksHashed(full) && !n.taken[full] {
		return full
	}
	return hashed(server, name)
}

// hashed returns the name that is exported if ID_NAME cannot be.
func hashed(server, name string) string {
	full := server + "_" + name
	sum := sha256.Sum256([]byte(server + "\x00" + name))
	full = onlyNameBytes(full)
	return full[:min(len(full), maxExported-hashDigits-1)] + "_" + hex.EncodeToString(sum[:hashDigits/2])
}

// onlyNameBytes replaces every character that an exported name must not have.
func onlyNameBytes(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && nameByte(byte(r)) {
			return r
		}
		return '_'
	}, s)
}

// looksHashed reports whether a name ends like a name with an appended hash.
func looksHashed(s string) bool {
	at := len(s) - hashDigits - 1
	if at < 0 || s[at] != '_' {
		return false
	}
	return strings.Trim(s[at+1:], "0123456789abcdef") == ""
}

func isName(s string) bool {
	for _, c := range []byte(s) {
		if !nameByte(c) {
			return false
		}
	}
	return s != ""
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.'
}

// Prefixes of qualified URIs, which specify their server. URIs of MCP Apps keep their scheme,
// because hosts do not load any other: https://modelcontextprotocol.io/extensions/apps. URIs of skills
// keep theirs, so that they stay paths without empty segments.
const (
	serverPrefix     = "mcptrack://server/"
	keptServerPrefix = "mcptrack/server/" // after the scheme, if it is kept
	uiScheme         = "ui://"
	skillScheme      = "skill://"
)

// keptScheme returns the scheme of a URI, URI template or glob if its qualified form keeps it, and
// otherwise "".
func keptScheme(uri string) string {
	for _, scheme := range []string{uiScheme, skillScheme} {
		if strings.HasPrefix(uri, scheme) {
			return scheme
		}
	}
	return ""
}

// cutQualified returns what follows the prefix of a qualified URI, URI template or glob, and the scheme
// that it keeps.
func cutQualified(uri string) (scheme, rest string, ok bool) {
	if scheme = keptScheme(uri); scheme != "" {
		rest, ok = strings.CutPrefix(uri[len(scheme):], keptServerPrefix)
	} else {
		rest, ok = strings.CutPrefix(uri, serverPrefix)
	}
	return scheme, rest, ok
}

// isQualified reports whether a URI or URI template has the prefix of qualified URIs.
func isQualified(uri string) bool {
	_, _, ok := cutQualified(uri)
	return ok
}

// qualify returns the qualified URI, or URI template, which specifies the server. The server is a
// path segment because the host part of a URI is case-insensitive and allows few characters.
func qualify(server, uri string) string {
	var b strings.Builder
	if scheme := keptScheme(uri); scheme != "" {
		b.WriteString(scheme + keptServerPrefix)
		uri = uri[len(scheme):]
	} else {
		b.WriteString(serverPrefix)
	}
	for _, c := range []byte(server) {
		if nameByte(c) && server != "." && server != ".." {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	b.WriteByte('/')
	b.WriteString(uri)
	return b.String()
}

// unqualify splits a qualified URI into server and URI; it is the inverse of qualify.
func unqualify(s string) (server, uri string, ok bool) {
	scheme, rest, ok := cutQualified(s)
	if !ok {
		return "", "", false
	}
	segment, uri, ok := strings.Cut(rest, "/")
	if !ok || uri == "" {
		return "", "", false
	}
	server, err := url.PathUnescape(segment)
	if err != nil || server == "" {
		return "", "", false
	}
	return server, scheme + uri, true
}

// keepsKey reports whether a resource or template can be exported unchanged when there are several
// servers.
func keepsKey(k catalog.Kind, key string) bool {
	return !isQualified(key) && (k != catalog.Templates || hasPrefix(key))
}

// hasPrefix reports whether a URI template has literal text after the scheme. A template without
// such text matches almost any URI, so it is exported in qualified form.
func hasPrefix(template string) bool {
	prefix, _, _ := strings.Cut(template, "{")
	return strings.Trim(prefix[schemeEnd(prefix):], "/") != "" && schemeEnd(prefix) > 0
}

// Names determines the names and URIs under which a gateway exports the items of its servers. The
// engine stores these names with each event, so that the event keeps its meaning even if the lists
// change later. Names receives lists in the order in which events are stored. Unlike the served
// catalog, it is therefore always up to date for the event being stored.
//
// A resource keeps its own URI unless another server lists it. An unlisted resource keeps its URI
// if a template matches it. For a server that has not been reached yet, the most recently recorded
// lists are used. The zero value is ready to use: pass its methods to an engine, and itself to the
// gateway.
//
// Gateways that share a log must have the same servers, because the gateway that stores an event
// determines its names. Otherwise, leave [Options.Names] nil, and store no names: the gateway then
// knows the lists that it has merged.
type Names struct {
	mu     sync.Mutex // guards all fields below; held while the tracker publishes, so only briefly
	alias  aliases
	naming naming
	ids    map[string]bool                  // ids of the servers in the config, in the tracker
	local  map[catalog.Kind]map[string]bool // the gateway's own items
	lists  map[journal.ListName]catalog.List
	listed map[catalog.Kind]map[string]int // how many servers in ids, plus the gateway, list a URI or template
	// templates contains the listed templates of each server, which unlisted URIs are matched
	// against. The templates of a server are compiled on first use.
	templates map[string][]template
}

// start sets the gateway's own items and the exported ids of servers.
func (n *Names) start(local contribution, alias aliases) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.alias = alias
	n.local = map[catalog.Kind]map[string]bool{}
	for k, items := range local.lists {
		n.local[k] = map[string]bool{}
		for _, it := range items {
			n.local[k][it.key] = true
		}
	}
	n.countLocked()
}

// apply sets the configured servers.
func (n *Names) apply(servers []config.Server) {
	ids := make([]string, len(servers))
	for i, srv := range servers {
		ids[i] = srv.ID
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.naming, n.ids = newNaming(n.alias.all(ids), n.local[catalog.Tools]), map[string]bool{}
	for _, srv := range servers {
		n.ids[srv.ID] = true
		n.naming.rename(n.alias.of(srv.ID), srv.Tools)
	}
	n.countLocked()
}

func (n *Names) countLocked() {
	n.listed = map[catalog.Kind]map[string]int{catalog.Resources: {}, catalog.Templates: {}, catalog.Skills: {}}
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

// Listed records a list of a server. Set it as [engine.Options.Listed].
func (n *Names) Listed(name journal.ListName, list catalog.List) {
	switch name.Kind {
	case catalog.Resources, catalog.Templates, catalog.Skills:
	default:
		return // names of other items do not depend on the lists, and a log stores other things than lists
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

// record is like Listed, for names that no engine uses.
func (n *Names) record(server string, k catalog.Kind, list catalog.List) {
	if !sameList(n.known(server, k), list) {
		n.Listed(journal.ListName{ServerID: server, Kind: k}, list)
	}
}

// forget discards the lists of servers that are not in the config, for names that no engine uses.
func (n *Names) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.lists, func(name journal.ListName, _ catalog.List) bool { return !n.ids[name.ServerID] })
	maps.DeleteFunc(n.templates, func(server string, _ []template) bool { return !n.ids[server] })
}

// Exported maps the server's names of the items in an event to their exported names, where the two
// differ. It returns nil if none of the items is exported. Set it as [engine.Options.Exported].
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
		if updated && name == key && !n.listsLocked(k, t) && !n.matchesLocked(t) && !n.ofSkillLocked(t) {
			name = n.alias.qualify(t)
		}
		if name != key {
			names[key] = name
		}
	}
	return names
}

// matchesLocked reports whether the gateway resolves an unlisted URI to this server: one of its
// templates matches, and no template of another server does.
func (n *Names) matchesLocked(t target) bool {
	if len(n.ids) <= 1 {
		return true
	}
	matches := false
	for id := range n.ids {
		if len(t.key) > maxCompared || !slices.ContainsFunc(n.templatesLocked(id), func(o template) bool { return o.matches(t.key) }) {
			continue
		}
		if id != t.server {
			return false
		}
		matches = true
	}
	return matches
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
			all = append(all, newTemplate(target{server, it.Key}, pattern))
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

// export returns the name or URI by which clients can use an item of a server, whether it is listed
// or not.
func (n *Names) export(k catalog.Kind, t target) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.exportLocked(k, t)
}

func (n *Names) exportLocked(k catalog.Kind, t target) string {
	switch k {
	case catalog.Tools:
		return n.naming.tool(n.alias.of(t.server), t.key)
	case catalog.Prompts:
		return n.naming.export(n.alias.of(t.server), t.key)
	}
	others := n.othersLocked(k, t)
	if k != catalog.Templates { // a SKILL.md may be both
		others = n.othersLocked(catalog.Resources, t) + n.othersLocked(catalog.Skills, t)
	}
	if others > 0 || len(n.ids) > 1 && !keepsKey(k, t.key) {
		return n.alias.qualify(t)
	}
	return t.key
}

// othersLocked returns how many other servers, and whether the gateway, list a URI or template.
func (n *Names) othersLocked(k catalog.Kind, t target) int {
	others := n.listed[k][t.key]
	if n.ids[t.server] && n.listsLocked(k, t) {
		others--
	}
	return others
}

// ofSkillLocked reports whether a URI is in the folder of a skill that the server lists.
func (n *Names) ofSkillLocked(t target) bool {
	for main := range skill.Mains(t.key) {
		if n.listsLocked(catalog.Skills, target{t.server, main}) {
			return true
		}
	}
	return false
}

// known returns the most recently recorded list of a server.
func (n *Names) known(server string, k catalog.Kind) catalog.List {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lists[journal.ListName{ServerID: server, Kind: k}]
}
