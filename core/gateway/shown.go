package gateway

import (
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
)

// tracks returns the function that reports whether the config wants events about an item
// of the server.
func tracks(srv config.Server) func(catalog.Kind, string) bool {
	return func(k catalog.Kind, key string) bool {
		switch k {
		case catalog.Resources:
			return srv.TrackResources && srv.Selects(key)
		case catalog.Templates:
			return srv.TrackResources
		case catalog.Prompts:
			return srv.TrackPrompts
		case catalog.Tools:
			return srv.TrackTools
		}
		return false
	}
}

// ShowsServer reports whether the server is one of those that are exported, so that
// clients may get events about it.
func (g *Gateway) ShowsServer(id string) bool {
	_, ok := g.view.Load().servers[id]
	return ok
}

// Shows reports whether clients may get events about an item of a server, and under which
// name or URI they find the item, which need not be listed any more: stored, if that is not "",
// and else the one it has now. They may if the config tracks the item, the filter admits it, and
// it was not left out of the lists for being invalid.
func (g *Gateway) Shows(server string, k catalog.Kind, key, stored string) (exported string, ok bool) {
	v := g.view.Load()
	tracked, known := v.servers[server]
	if !known || tracked == nil || !tracked(k, key) {
		return "", false
	}
	t := target{server, key}
	if exported = stored; exported == "" {
		exported = g.names.export(k, t)
	}
	if !v.filter.admits(k, t, exported) {
		return "", false
	}
	_, refused := v.refused[k][t]
	return exported, !refused
}

// refusedItems returns the items that are not listed, by kind.
func refusedItems(all map[Refusal]struct{}) map[catalog.Kind]map[target]struct{} {
	out := map[catalog.Kind]map[target]struct{}{}
	for r := range all {
		if r.Listed {
			continue
		}
		if out[r.Kind] == nil {
			out[r.Kind] = map[target]struct{}{}
		}
		out[r.Kind][target{r.Server, r.Key}] = struct{}{}
	}
	return out
}
