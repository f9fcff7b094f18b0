package sessiontest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// filter is what a peer or a listen subscribed to.
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	Events    bool     `json:"eventsListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	uris      map[string]struct{}
}

func (f filter) covers(uri string) bool {
	for u := range f.uris {
		if u == uri || strings.HasPrefix(uri, strings.TrimSuffix(u, "/")+"/") {
			return true
		}
	}
	return false
}

func (f filter) empty() bool {
	return !f.Tools && !f.Prompts && !f.Resources && !f.Events && len(f.uris) == 0
}

// peer is one client connection that notifications can go to.
type peer struct {
	legacy  bool
	capable bool               // legacy: declared that it can be asked something
	filter  filter             // legacy
	listens map[string]*listen // modern, by the JSON of the request id
	write   func(raw []byte)   // must be safe for concurrent use
	closed  chan struct{}      // closed, under clients.mu, to cut the connection
}

// listen is one open subscriptions/listen.
type listen struct {
	filter filter
	acked  bool
	// end receives how the request ends, once: true for gracefully. Capacity 1,
	// never closed.
	end chan bool
}

func newPeer(write func([]byte)) *peer {
	return &peer{listens: map[string]*listen{}, write: write, closed: make(chan struct{}),
		filter: filter{Tools: true, Prompts: true, Resources: true, Events: true, uris: map[string]struct{}{}}}
}

func (p *peer) send(message any) {
	raw, err := json.Marshal(message)
	if err != nil {
		panic(err)
	}
	p.write(raw)
}

func (f filter) withSet() filter {
	f.uris = make(map[string]struct{}, len(f.URIs))
	for _, u := range f.URIs {
		f.uris[u] = struct{}{}
	}
	f.URIs = slices.Sorted(maps.Keys(f.uris))
	return f
}
