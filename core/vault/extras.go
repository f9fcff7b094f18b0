package vault

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxExtras limits the URIs in extras. It is ten times the subscription limit of
	// one client, so that one client cannot exhaust it.
	maxExtras = 100_000
	// extraGrace is how long a URI stays after a client asked for it, even without a
	// subscriber: it is added just before the subscription is made.
	extraGrace = 10 * time.Second
	// pruneSpacing is the least time between two searches for unsubscribed URIs.
	pruneSpacing = time.Second
)

// extras holds the subscribed URIs that cannot be derived from a changed path: pages
// of recent, and alternative spellings. It maps targets to the URIs that clients used.
type extras struct {
	mu sync.Mutex // not held while subscribed is called, which has locks of its own

	subscribed func(uri string) bool // nil before Run
	asked      map[string]time.Time  // when a client last asked to subscribe, by URI
	forms      map[target][]string   // the same URIs, by the target to which they lead
	pruned     time.Time             // when prune last looked for unsubscribed URIs
}

// listen sets the function that reports whether a URI is subscribed to. Until then prune
// drops nothing.
func (x *extras) listen(subscribed func(uri string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.subscribed = subscribed
}

// add adds a URI that leads to a target, because a client asks to subscribe to it. It
// returns false if there are maxExtras already.
func (x *extras) add(uri string, t target, now time.Time) bool {
	x.prune(now)
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, known := x.asked[uri]; !known {
		if len(x.asked) >= maxExtras {
			return false
		}
		if x.asked == nil {
			x.asked, x.forms = make(map[string]time.Time), make(map[target][]string)
		}
		x.forms[t] = append(x.forms[t], uri)
	}
	x.asked[uri] = now
	return true
}

// of returns the URIs that lead to a target.
func (x *extras) of(t target) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.forms[t])
}

// pages returns the pages of recent in extras.
func (x *extras) pages() (pages []target) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for t := range x.forms {
		if t.kind == kindRecent {
			pages = append(pages, t)
		}
	}
	return pages
}

// prune drops URIs without a subscriber, at most once per pruneSpacing.
func (x *extras) prune(now time.Time) {
	x.mu.Lock()
	subscribed := x.subscribed
	if subscribed == nil || now.Sub(x.pruned) < pruneSpacing {
		x.mu.Unlock()
		return
	}
	x.pruned = now
	var left []string
	for uri, at := range x.asked {
		if now.Sub(at) > extraGrace {
			left = append(left, uri)
		}
	}
	x.mu.Unlock()

	left = slices.DeleteFunc(left, subscribed)
	if len(left) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, uri := range left {
		if now.Sub(x.asked[uri]) > extraGrace { // it may have been added again meanwhile
			delete(x.asked, uri)
		}
	}
	for t, uris := range x.forms {
		uris = slices.DeleteFunc(uris, func(uri string) bool { _, ok := x.asked[uri]; return !ok })
		if x.forms[t] = uris; len(uris) == 0 {
			delete(x.forms, t)
		}
	}
}
