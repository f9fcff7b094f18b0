package capindex

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Capabilities is a snapshot of what all servers offer. It must not be modified after it has been passed on.
type Capabilities struct {
	Servers []ServerCapabilities
}

// ServerCapabilities holds the capabilities of one server.
type ServerCapabilities struct {
	ID string
	// State is one word, such as "Ready"; it is omitted if empty.
	State string
	// Name and Version are reported by the server; each is omitted if empty.
	Name, Version string
	// Lists contains the items with the keys that readers can use, in the form that a gateway
	// exports.
	Lists map[catalog.Kind]catalog.List
	// Updates contains the most recent known updates of resources.
	Updates []Update
}

// Update describes the last update of a resource.
type Update struct {
	URI  string
	Time time.Time
}

// An element is one item in a snapshot (a tool, prompt, resource or template), with the members of its
// descriptor.
type element struct {
	server *ServerCapabilities
	kind   catalog.Kind
	key    string
	catalog.Descriptor
	params []parameter
}

// parameter is a parameter of a tool or an argument of a prompt.
type parameter struct {
	Name     string
	Type     string
	Required bool
}

// maxParameters is the maximum number of parameters of one element that are listed and indexed.
const maxParameters = 32

// sorted returns a copy of the snapshot with the servers sorted by id, which is their order in all
// documents.
func (v Capabilities) sorted() Capabilities {
	servers := slices.Clone(v.Servers)
	sort.SliceStable(servers, func(i, j int) bool { return servers[i].ID < servers[j].ID })
	return Capabilities{servers}
}

// elements returns all items, ordered by server, kind and key.
func (v Capabilities) elements() []element {
	var all []element
	for i := range v.Servers {
		srv := &v.Servers[i]
		for _, k := range kinds() {
			for _, it := range srv.Lists[k] {
				e := element{server: srv, kind: k, key: it.Key, Descriptor: it.Describe()}
				e.params = parameters(k, it.Raw)
				all = append(all, e)
			}
		}
	}
	return all
}

// kinds returns the kinds of lists in the order in which documents list them: actions before
// content.
func kinds() []catalog.Kind {
	return []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Resources, catalog.Templates}
}

// parameters returns the parameters of a tool, sorted by name, or the arguments of a prompt, in the
// prompt's order. It returns at most maxParameters, and none if the descriptor is malformed.
func parameters(k catalog.Kind, raw json.RawMessage) []parameter {
	var out []parameter
	switch k {
	case catalog.Tools:
		var tool struct {
			InputSchema struct {
				Properties map[string]json.RawMessage `json:"properties"`
				Required   []string                   `json:"required"`
			} `json:"inputSchema"`
		}
		if json.Unmarshal(raw, &tool) != nil {
			return nil
		}
		required := make(map[string]bool, len(tool.InputSchema.Required))
		for _, name := range tool.InputSchema.Required {
			required[name] = true
		}
		for _, name := range slices.Sorted(maps.Keys(tool.InputSchema.Properties)) {
			var s struct {
				Type string `json:"type"`
			}
			_ = json.Unmarshal(tool.InputSchema.Properties[name], &s) // a missing type, or a list of types, is omitted
			out = append(out, parameter{name, s.Type, required[name]})
		}
	case catalog.Prompts:
		var prompt struct {
			Arguments []struct {
				Name     string `json:"name"`
				Required bool   `json:"required"`
			} `json:"arguments"`
		}
		if json.Unmarshal(raw, &prompt) != nil {
			return nil
		}
		for _, a := range prompt.Arguments {
			out = append(out, parameter{Name: a.Name, Required: a.Required})
		}
	}
	return out[:min(len(out), maxParameters)]
}

// count returns the number of items of a kind that the server has.
func (s *ServerCapabilities) count(k catalog.Kind) int { return len(s.Lists[k]) }

// total returns the number of items of all kinds that the server has.
func (s *ServerCapabilities) total() (n int) {
	for _, k := range kinds() {
		n += s.count(k)
	}
	return n
}

// counts returns the number of servers and of items of each kind.
func (v Capabilities) counts() map[string]int {
	n := map[string]int{"servers": len(v.Servers)}
	for _, k := range kinds() {
		n[string(k)] = 0
		for i := range v.Servers {
			n[string(k)] += v.Servers[i].count(k)
		}
	}
	return n
}

// updated returns up to most updates of all servers, latest first.
func (v Capabilities) updated(most int) []serverUpdate {
	var all []serverUpdate
	for _, srv := range v.Servers {
		for _, u := range srv.Updates {
			if !u.Time.IsZero() {
				all = append(all, serverUpdate{srv.ID, u})
			}
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.server, b.server), cmp.Compare(a.URI, b.URI)) < 0
	})
	return all[:min(len(all), most)]
}

type serverUpdate struct {
	server string
	Update
}
