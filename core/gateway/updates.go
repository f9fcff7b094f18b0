package gateway

import (
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// updated notifies the subscribers of a resource that it changed: under its exported
// URI, its qualified URI and those that clients used. Subscribers of a parent of the URI
// are notified of the parent, as servers announce children of subscribed resources.
func (g *Gateway) updated(t target) {
	v := g.view.Load()
	if _, ours := v.servers[t.server]; !ours || t.key == "" {
		return
	}
	uris := []string{v.export(t), qualify(t.server, t.key)}
	for _, uri := range g.adhoc.aliases(t) { // unless the URI leads to another server by now
		if at, ok := v.locate(uri); ok && at == t {
			uris = append(uris, uri)
		}
	}
	subs := g.server.Subscriptions()
	rest := t.key
	for range maxParents {
		i := strings.LastIndexAny(rest, "/?#")
		if i <= 0 {
			break
		}
		for _, parent := range []string{rest[:i+1], rest[:i]} { // either may be subscribed
			if parent == t.key {
				continue
			}
			if uri := qualify(t.server, parent); subs.Subscribed(uri) {
				uris = append(uris, uri)
			}
			if subs.Subscribed(parent) && v.export(target{t.server, parent}) == parent {
				uris = append(uris, parent)
			}
		}
		rest = rest[:i]
	}
	g.server.Updated(uris...)
}

// maxParents is the number of levels above a resource whose subscribers are notified.
const maxParents = 64

// updatedAll notifies all subscribers of all resources.
func (g *Gateway) updatedAll() {
	for uri := range g.view.Load().byKey[catalog.Resources] {
		g.server.Updated(uri)
	}
	g.server.Updated(g.adhoc.uris()...)
}
