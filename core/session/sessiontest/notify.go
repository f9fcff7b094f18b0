package sessiontest

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// NotifyUpdated sends resources/updated to the clients that subscribed to the URI or
// to one that it is below.
func (c *clients) NotifyUpdated(uri string) {
	c.notify("notifications/resources/updated", map[string]any{"uri": uri}, func(f filter) bool { return f.covers(uri) })
}

// Flood sends n updates of uri as fast as the clients read.
func (s *Fake) Flood(uri string, n int) {
	for range n {
		s.NotifyUpdated(uri)
	}
}

// NotifyListChanged sends list_changed of the kind; templates go with resources.
func (c *clients) NotifyListChanged(k catalog.Kind) {
	if k == catalog.Templates {
		k = catalog.Resources
	}
	c.notify("notifications/"+string(k)+"/list_changed", nil, func(f filter) bool {
		return k == catalog.Tools && f.Tools || k == catalog.Prompts && f.Prompts || k == catalog.Resources && f.Resources
	})
}

// NotifyEventsChanged sends list_changed of the types of MCP Events.
func NotifyEventsChanged(s *Fake) {
	s.notify("notifications/events/list_changed", nil, func(f filter) bool { return f.Events })
}

// Mute drops all notifications from now on, as servers with full queues do.
func (c *clients) Mute(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = on
}

func (c *clients) notify(method string, params map[string]any, wanted func(filter) bool) {
	type target struct {
		p  *peer
		id json.RawMessage
	}
	var targets []target
	c.mu.Lock()
	if !c.mute {
		for p := range c.peers {
			if p.legacy && wanted(p.filter) {
				targets = append(targets, target{p, nil})
			}
			for id, l := range p.listens {
				if l.acked && wanted(l.filter) {
					targets = append(targets, target{p, json.RawMessage(id)})
				}
			}
		}
	}
	untagged := c.Untagged
	c.mu.Unlock()
	for _, t := range targets {
		out := maps.Clone(params)
		if t.id != nil && !untagged {
			if out == nil {
				out = map[string]any{}
			}
			out["_meta"] = map[string]any{"io.modelcontextprotocol/subscriptionId": t.id}
		}
		t.p.send(map[string]any{"jsonrpc": "2.0", "method": method, "params": orEmpty(out)})
	}
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// Broadcast sends any message to all clients, as it is.
func (c *clients) Broadcast(message any) {
	for _, p := range c.everybody() {
		p.send(message)
	}
}

func (c *clients) everybody() []*peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.peers))
}
