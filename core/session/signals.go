package session

import (
	"cmp"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
	"github.com/mcptrack/mcptrack/core/uri"
)

// Signals is the bounded dirty set of a session: it records which keys must be checked again.
// Raising a signal costs one map access and never blocks. A thousand signals for the same key
// occupy one entry.
type Signals struct {
	// wake is sent to by the session, and received from by its owner.
	wake     wake.Channel
	max      int
	untagged bool // accept notifications without a subscription id, as some stdio servers send

	mu      sync.Mutex
	lists   map[catalog.Kind]struct{}
	uris    map[string]Signal
	subs    int // number of sub-resources in uris
	gap     string
	silent  bool // gap was raised only because a stream was silent
	dropped map[string]int
	want    wanted
	unknown string              // the first URI of an update that nobody wants; empty if there was none
	told    bool                // Take has returned it
	listens map[wire.ID]*listen // open modern listens, by request id
}

const (
	maxSubURIs   = 1000
	maxURILength = 8 << 10 // in bytes; a longer URI is treated as malformed
	maxURIDepth  = 64      // maximum steps in the search for a subscribed parent
)

// wanted is the set of lists and URIs whose notifications are delivered. The map uris is never
// modified.
type wanted struct {
	lists map[catalog.Kind]bool
	uris  map[string]struct{}
	// spelled contains the URIs by normal form. It is nil until an update has another spelling.
	spelled map[string]string
}

// find returns the wanted URI that is equivalent to the given one.
func (w *wanted) find(s string) (found string, ok bool) {
	if _, ok = w.uris[s]; ok {
		return s, true
	}
	if w.spelled == nil {
		w.spelled = make(map[string]string, len(w.uris))
		for u := range w.uris {
			w.spelled[uri.Normal(u)] = u
		}
	}
	found, ok = w.spelled[uri.Normal(s)]
	return found, ok
}

func wantedOf(f Filter) wanted {
	w := wanted{lists: f.lists(), uris: make(map[string]struct{}, len(f.URIs))}
	for _, u := range f.URIs {
		w.uris[u] = struct{}{}
	}
	return w
}

func newSignals(max int, believeUntagged bool) *Signals {
	return &Signals{wake: wake.New(), max: max, untagged: believeUntagged, listens: map[wire.ID]*listen{}}
}

// C returns the channel that wakes the owner, which should then call Take. Take may return nothing
// new. The channel is never closed.
func (g *Signals) C() <-chan struct{} { return g.wake }

// Take returns the keys that became dirty since the last call, and clears them.
func (g *Signals) Take() Dirty {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := Dirty{Lists: g.lists, URIs: g.uris, Gap: g.gap, Silent: g.silent, Dropped: g.dropped}
	if g.unknown != "" && !g.told {
		b.Unknown, g.told = g.unknown, true
	}
	g.lists, g.uris, g.gap, g.silent, g.dropped, g.subs = nil, nil, "", false, nil, 0
	return b
}

// raiseGap records that notifications may have been lost. If several gaps are raised, the first
// reason is kept.
func (g *Signals) raiseGap(reason string) {
	g.mu.Lock()
	g.setGap(reason)
	g.mu.Unlock()
	g.ring()
}

// raiseSilent records that a stream was silent for so long that notifications may have been lost.
func (g *Signals) raiseSilent(reason string) {
	g.mu.Lock()
	if g.gap == "" {
		g.gap, g.silent = reason, true
	}
	g.mu.Unlock()
	g.ring()
}

// setGap records a gap that was not caused by a silent stream. The caller must hold g.mu.
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

func (g *Signals) setWanted(w wanted) {
	g.mu.Lock()
	g.want = w
	g.mu.Unlock()
}

// wantMore adds w to the wanted set until the next call to setWanted.
func (g *Signals) wantMore(w wanted) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := wanted{lists: maps.Clone(w.lists), uris: maps.Clone(w.uris)}
	maps.Copy(all.lists, g.want.lists)
	maps.Copy(all.uris, g.want.uris)
	g.want = all
}

func (g *Signals) ring() {
	g.wake.Send()
}

// count adds n to the Dropped count for a reason. The caller must hold g.mu.
func (g *Signals) count(reason string, n int) {
	if g.dropped == nil {
		g.dropped = map[string]int{}
	}
	g.dropped[reason] += n
}

// notify adds a notification to the dirty set. It is called by the goroutine that reads from the
// server and does not block.
func (g *Signals) notify(n *wire.Notification, modern bool) {
	switch n.Method {
	case mcp.NotificationToolsChanged:
		g.deliver(n, modern, catalog.Tools)
	case mcp.NotificationPromptsChanged:
		g.deliver(n, modern, catalog.Prompts)
	case mcp.NotificationResourcesChanged:
		g.deliver(n, modern, catalog.Resources, catalog.Templates)
	case mcp.NotificationResourceUpdated:
		g.deliver(n, modern)
	case mcp.NotificationAcknowledged:
		g.acknowledged(n)
	case mcp.NotificationCancelled:
		g.cancelled(n)
	}
}

// deliver marks the given kinds as dirty, or the notification's URI if there are none, and wakes
// the owner.
func (g *Signals) deliver(n *wire.Notification, modern bool, kinds ...catalog.Kind) {
	g.mu.Lock()
	ok := g.admit(n, modern) && g.mark(n.URI, kinds)
	if ok && g.untagged && isUntagged(n, modern) {
		g.count(countUntagged, 1)
	}
	ok = ok || g.unknown != "" && !g.told
	g.mu.Unlock()
	if ok {
		g.ring()
	}
}

// mark marks the lists of the given kinds as dirty, or the URI if there are no kinds. It reports
// whether to wake the owner. The caller must hold g.mu.
func (g *Signals) mark(uri string, kinds []catalog.Kind) bool {
	if len(kinds) == 0 {
		return g.markURI(uri)
	}
	if !g.want.lists[kinds[0]] {
		g.count(dropUnsubscribed, 1)
		return false
	}
	if g.lists == nil {
		g.lists = make(map[catalog.Kind]struct{}, 4)
	}
	for _, k := range kinds {
		g.lists[k] = struct{}{}
	}
	return true
}

func (g *Signals) markURI(uri string) bool {
	if uri == "" || len(uri) > maxURILength {
		g.count(dropMalformed, 1)
		return false
	}
	parent := ""
	if wanted, ok := g.want.find(uri); ok {
		uri = wanted
	} else if parent, ok = g.parent(uri); !ok {
		g.count(dropUnsubscribed, 1)
		g.unknown = cmp.Or(g.unknown, uri)
		return false
	}
	sig, known := g.uris[uri]
	if !known && parent != "" && g.subs >= maxSubURIs {
		uri, parent = parent, ""
		sig, known = g.uris[uri]
	}
	if !known {
		if len(g.uris) >= g.max {
			g.count(dropOverflow, 1)
			g.setGap("more changed resources than the session can track")
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

// parent returns the nearest subscribed URI that has uri as a sub-resource.
func (g *Signals) parent(uri string) (string, bool) {
	rest := uri
	for range maxURIDepth {
		i := strings.LastIndexAny(rest, "/?#")
		if i <= 0 {
			break
		}
		// The subscribed URI may or may not end in "/".
		for _, p := range [...]string{rest[:i+1], rest[:i]} {
			if _, ok := g.want.uris[p]; ok && p != uri {
				return p, true
			}
		}
		rest = rest[:i]
	}
	return "", false
}

// Signal summarizes the notifications for one URI since the last Take.
type Signal struct {
	First  time.Time // when the first notification was received
	Count  int
	Parent string // subscribed URI that has this URI as a sub-resource; otherwise empty
}

// Dirty contains the keys that became dirty since the last Take.
type Dirty struct {
	Lists map[catalog.Kind]struct{}
	// URIs contains subscribed URIs and their sub-resources (Signal.Parent is then the subscribed
	// URI). Beyond 1,000 distinct sub-resources, the signal is for the parent instead.
	URIs map[string]Signal
	// Gap is the reason why notifications may have been lost, or empty if there is no gap. After a
	// gap, subscribe, list and read again, in this order.
	Gap string
	// Silent reports that the Gap was raised only because a stream was silent. Subscribe has
	// replaced the stream or will replace it. No loss is known: a change found now is one that the
	// old stream did not deliver.
	Silent bool
	// Unknown is the first URI of the session that was announced but is not wanted. It is returned once.
	Unknown string
	// Dropped counts irregular notifications by reason. "untagged" notifications lacked their
	// subscription id but were delivered. All others were not delivered: "unsubscribed",
	// "before_ack", "foreign_subscription", "overflow", "malformed", "items" (list items without a
	// usable key) and "undecodable" (data that started like a message but is not JSON; a gap
	// follows).
	Dropped map[string]int
}

// The possible reasons in Dirty.Dropped.
const (
	dropUnsubscribed = "unsubscribed"
	dropBeforeAck    = "before_ack"
	dropForeign      = "foreign_subscription"
	dropOverflow     = "overflow"
	dropMalformed    = "malformed"
	countUntagged    = "untagged"

	// Only DroppedUndecodable and DroppedItems may deserve a warning.
	DroppedUndecodable = "undecodable"
	DroppedItems       = "items"
)

// open registers a listen before its request is sent.
func (g *Signals) open(l *listen) {
	g.mu.Lock()
	g.listens[l.id] = l
	g.mu.Unlock()
}

// forget unregisters a listen. It reports whether the end of the listen is a gap, which is the case
// if it was acknowledged and still registered.
func (g *Signals) forget(l *listen) (gap bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, live := g.listens[l.id]
	delete(g.listens, l.id)
	return live && l.acked && !l.empty && !l.leaving
}

// leave marks listens that will be ended deliberately. Their notifications are delivered until
// then.
func (g *Signals) leave(listens []*listen) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range listens {
		l.leaving = true
	}
}

// state reports whether the listen is registered and whether it has been silent for too long.
func (g *Signals) state(l *listen) (live, silent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.listens[l.id] == l, l.silent
}

// wentSilent records that no data arrived on a listen for [wire.StreamIdle]. The next Subscribe
// replaces the listen.
func (g *Signals) wentSilent(l *listen) {
	g.mu.Lock()
	due := g.listens[l.id] == l && l.acked && !l.leaving && !l.silent
	l.silent = l.silent || due
	g.mu.Unlock()
	if due {
		g.raiseSilent("the subscription was silent for " + wire.StreamIdle.String())
	}
}

// admit checks the subscription id of a modern notification. The caller must hold g.mu.
func (g *Signals) admit(n *wire.Notification, modern bool) bool {
	if !modern || g.untagged && isUntagged(n, modern) {
		return true
	}
	l := g.listens[n.Meta.Subscription.ID]
	switch {
	case l == nil:
		g.count(dropForeign, 1)
		return false
	case !l.acked:
		g.count(dropBeforeAck, 1)
		return false
	}
	return true
}

func (g *Signals) acknowledged(n *wire.Notification) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.listens[n.Meta.Subscription.ID]
	switch {
	case l == nil:
		g.count(dropForeign, 1)
	case n.Malformed:
		g.count(dropMalformed, 1)
	case !l.acked:
		var honoured Filter
		if n.Honoured != nil {
			honoured = Filter(*n.Honoured)
		}
		l.acked, l.empty = true, honoured.Empty()
		l.acknowledged <- honoured
	}
}

// cancelled ends the listen that a notifications/cancelled from the server identifies. On stdio,
// servers end a listen this way.
func (g *Signals) cancelled(n *wire.Notification) {
	g.mu.Lock()
	l := g.listens[n.RequestID]
	if l != nil && l.why == "" {
		l.why = "the server cancelled the subscription"
	}
	g.mu.Unlock()
	if l != nil {
		l.cancel()
	}
}

// isUntagged reports whether a modern notification lacks its subscription id.
func isUntagged(n *wire.Notification, modern bool) bool {
	return modern && !n.Meta.Subscription.Present
}
