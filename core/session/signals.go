package session

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// Signals is the bounded dirty set of a session: which keys to look at again.
// Raising a signal costs a map access and never blocks; a thousand signals for
// one key are one entry with a count.
type Signals struct {
	// wake has capacity one: the session sends without blocking and never closes it; only the
	// session's owner receives.
	wake     chan struct{}
	max      int
	untagged bool // notifications without a subscription id are accepted: some stdio servers send no ids

	mu      sync.Mutex
	lists   map[catalog.Kind]struct{}
	uris    map[string]Signal
	subs    int // sub-resources among uris
	gap     string
	silent  bool // the only reason for gap is a silent stream
	dropped map[string]int
	want    wanted
	streams map[string]*stream // modern: open listens, by request id
}

const (
	maxSubURIs   = 1000
	maxURILength = 8 << 10 // bytes; a longer URI is malformed
	maxURIDepth  = 64      // bounds the search for a subscribed parent, in steps
)

// wanted is the set of lists and URIs whose notifications are delivered. Its uris are never
// modified.
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

// C returns the channel that wakes the owner: after a receive it should call Take, which may
// return nothing new. It is never closed.
func (g *Signals) C() <-chan struct{} { return g.wake }

// Take returns what became dirty since the last call, and clears it.
func (g *Signals) Take() Batch {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := Batch{Lists: g.lists, URIs: g.uris, Gap: g.gap, Silent: g.silent, Dropped: g.dropped}
	g.lists, g.uris, g.gap, g.silent, g.dropped, g.subs = nil, nil, "", false, nil, 0
	return b
}

// raiseGap records that notifications may be missing. If there is a reason already, it is kept.
func (g *Signals) raiseGap(reason string) {
	g.mu.Lock()
	g.setGap(reason)
	g.mu.Unlock()
	g.ring()
}

// raiseSilent records that a stream was silent for so long that notifications may be
// missing.
func (g *Signals) raiseSilent(reason string) {
	g.mu.Lock()
	if g.gap == "" {
		g.gap, g.silent = reason, true
	}
	g.mu.Unlock()
	g.ring()
}

// setGap records a gap that is more than a silent stream. g.mu must be held.
func (g *Signals) setGap(reason string) {
	if g.gap == "" || g.silent {
		g.gap, g.silent = reason, false
	}
}

func (g *Signals) drop(reason string, n int) {
	g.mu.Lock()
	g.count(reason, n)
	g.mu.Unlock()
}

// setWanted replaces the set of lists and URIs whose notifications are delivered.
func (g *Signals) setWanted(w wanted) {
	g.mu.Lock()
	g.want = w
	g.mu.Unlock()
}

// wantMore adds w to that set, until the next setWanted.
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

// count adds n to Dropped. g.mu must be held.
func (g *Signals) count(reason string, n int) {
	if g.dropped == nil {
		g.dropped = map[string]int{}
	}
	g.dropped[reason] += n
}

// notify adds what a notification reports to the next batch of changes. It is called by the
// goroutine that reads from the server, and does not block.
func (g *Signals) notify(n *wire.Notification, modern bool) {
	switch n.Method {
	case mcp.NotificationToolsChanged:
		g.listChanged(n, modern, catalog.Tools)
	case mcp.NotificationPromptsChanged:
		g.listChanged(n, modern, catalog.Prompts)
	case mcp.NotificationResourcesChanged:
		g.listChanged(n, modern, catalog.Resources, catalog.Templates)
	case mcp.NotificationResourceUpdated:
		g.updated(n, modern)
	case mcp.NotificationAcknowledged:
		g.acknowledged(n)
	case mcp.NotificationCancelled:
		g.cancelled(n)
	}
}

func (g *Signals) listChanged(n *wire.Notification, modern bool, kinds ...catalog.Kind) {
	g.mu.Lock()
	ok := g.admit(n, modern)
	if ok && !g.want.lists[kinds[0]] {
		g.count(dropUnsubscribed, 1)
		ok = false
	}
	if ok {
		if g.untagged && isUntagged(n, modern) {
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

func (g *Signals) updated(n *wire.Notification, modern bool) {
	g.mu.Lock()
	ok := g.admit(n, modern) && g.mark(n.URI)
	if ok && g.untagged && isUntagged(n, modern) {
		g.count(countUntagged, 1)
	}
	g.mu.Unlock()
	if ok {
		g.ring()
	}
}

// mark marks a URI as dirty, and reports whether the owner has to be woken. g.mu must be held.
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
			g.setGap("more changes than fit the set")
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

// parent returns the nearest subscribed URI of which uri is a sub-resource.
func (g *Signals) parent(uri string) (string, bool) {
	rest := uri
	for range maxURIDepth {
		i := strings.LastIndexAny(rest, "/?#")
		if i <= 0 {
			break
		}
		// The subscribed URI may end in "/" or not.
		for _, p := range [...]string{rest[:i+1], rest[:i]} {
			if _, ok := g.want.uris[p]; ok && p != uri {
				return p, true
			}
		}
		rest = rest[:i]
	}
	return "", false
}
