package session

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Signals is the bounded dirty set of a session: which keys to look at again.
// Raising a signal costs a map access and never blocks; a thousand signals for
// one key are one entry with a count.
type Signals struct {
	// wake has room for one: the session sends without blocking and never
	// closes it; the one reader is the session's owner.
	wake     chan struct{}
	max      int
	untagged bool // stdio servers that do not tag are believed

	mu      sync.Mutex
	lists   map[catalog.Kind]struct{}
	uris    map[string]Signal
	subs    int // sub-resources among uris
	gap     string
	dropped map[string]int
	want    wanted
	streams map[string]*stream // modern: live listens by request id
}

const (
	maxSubURIs   = 1000
	maxURILength = 8 << 10 // longer ones are malformed
	maxURIDepth  = 64      // steps up in search of a subscribed parent
)

// wanted is what notifications are matched against; uris is never modified once
// it is set.
type wanted struct {
	lists map[catalog.Kind]bool
	uris  map[string]struct{}
}

func wantedOf(f Filter) wanted {
	w := wanted{lists: f.lists(), uris: make(map[string]struct{}, len(f.URIs))}
	for _, u := range f.URIs {
		w.uris[u] = struct{}{}
	}
	return w
}

func newSignals(max int, believeUntagged bool) *Signals {
	return &Signals{wake: make(chan struct{}, 1), max: max, untagged: believeUntagged, streams: map[string]*stream{}}
}

// C returns the channel that wakes the owner: a receive means that Take has
// something, or had something that an earlier Take took. It is never closed.
func (g *Signals) C() <-chan struct{} { return g.wake }

// Take returns what became dirty since the last call and starts anew.
func (g *Signals) Take() Batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := Batch{Lists: g.lists, URIs: g.uris, Gap: g.gap, Dropped: g.dropped}
	g.lists, g.uris, g.gap, g.dropped, g.subs = nil, nil, "", nil, 0
	return b
}

// raiseGap tells that notifications may be missing. The first reason stays.
func (g *Signals) raiseGap(reason string) {
	g.mu.Lock()
	if g.gap == "" {
		g.gap = reason
	}
	g.mu.Unlock()
	g.ring()
}

func (g *Signals) drop(reason string, n int) {
	g.mu.Lock()
	g.count(reason, n)
	g.mu.Unlock()
}

// setWanted replaces what notifications are matched against.
func (g *Signals) setWanted(w wanted) {
	g.mu.Lock()
	g.want = w
	g.mu.Unlock()
}

// wantMore lets notifications for w through as well, until the next setWanted.
func (g *Signals) wantMore(w wanted) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := wanted{lists: maps.Clone(w.lists), uris: maps.Clone(w.uris)}
	maps.Copy(all.lists, g.want.lists)
	maps.Copy(all.uris, g.want.uris)
	g.want = all
}

func (g *Signals) ring() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// count needs the lock.
func (g *Signals) count(reason string, n int) {
	if g.dropped == nil {
		g.dropped = map[string]int{}
	}
	g.dropped[reason] += n
}

// notify folds one notification in. It runs on the transport's reader.
func (g *Signals) notify(n mcp.JSONRPCNotification, modern bool) {
	switch n.Method {
	case "notifications/tools/list_changed":
		g.listChanged(n, modern, catalog.Tools)
	case "notifications/prompts/list_changed":
		g.listChanged(n, modern, catalog.Prompts)
	case "notifications/resources/list_changed":
		g.listChanged(n, modern, catalog.Resources, catalog.Templates)
	case "notifications/resources/updated":
		g.updated(n, modern)
	case "notifications/subscriptions/acknowledged":
		g.acknowledged(n)
	case "notifications/cancelled":
		g.cancelled(n)
	}
}

func (g *Signals) listChanged(n mcp.JSONRPCNotification, modern bool, kinds ...catalog.Kind) {
	g.mu.Lock()
	ok := g.admit(n, modern)
	if ok && !g.want.lists[kinds[0]] {
		g.count(dropUnsubscribed, 1)
		ok = false
	}
	if ok {
		if g.isUntagged(n, modern) {
			g.count(countUntagged, 1)
		}
		if g.lists == nil {
			g.lists = make(map[catalog.Kind]struct{}, 4)
		}
		for _, k := range kinds {
			g.lists[k] = struct{}{}
		}
	}
	g.mu.Unlock()
	if ok {
		g.ring()
	}
}

func (g *Signals) updated(n mcp.JSONRPCNotification, modern bool) {
	uri, _ := n.Params.AdditionalFields["uri"].(string)
	g.mu.Lock()
	ok := g.admit(n, modern) && g.mark(uri)
	if ok && g.isUntagged(n, modern) {
		g.count(countUntagged, 1)
	}
	g.mu.Unlock()
	if ok {
		g.ring()
	}
}

// mark needs the lock. It reports whether the owner has something to take.
func (g *Signals) mark(uri string) bool {
	if uri == "" || len(uri) > maxURILength {
		g.count(dropMalformed, 1)
		return false
	}
	parent := ""
	if _, ok := g.want.uris[uri]; !ok {
		if parent, ok = g.parent(uri); !ok {
			g.count(dropUnsubscribed, 1)
			return false
		}
	}
	sig, known := g.uris[uri]
	if !known && parent != "" && g.subs >= maxSubURIs {
		uri, parent = parent, ""
		sig, known = g.uris[uri]
	}
	if !known {
		if len(g.uris) >= g.max {
			g.count(dropOverflow, 1)
			if g.gap == "" {
				g.gap = "more changes than fit the set"
			}
			return true
		}
		if g.uris == nil {
			g.uris = make(map[string]Signal)
		}
		sig = Signal{First: time.Now(), Parent: parent}
		if parent != "" {
			g.subs++
		}
	}
	sig.Count++
	g.uris[uri] = sig
	return true
}

// parent finds the nearest subscribed URI that uri is a sub-resource of.
func (g *Signals) parent(uri string) (string, bool) {
	rest := uri
	for range maxURIDepth {
		i := strings.LastIndexAny(rest, "/?#")
		if i <= 0 {
			break
		}
		// Both "dir/" and "dir" may be what was subscribed.
		for _, p := range [...]string{rest[:i+1], rest[:i]} {
			if _, ok := g.want.uris[p]; ok && p != uri {
				return p, true
			}
		}
		rest = rest[:i]
	}
	return "", false
}
