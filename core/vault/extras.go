package vault

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxExtras bounds the URIs that are subscribed to in a form of the client's. One
	// client may have 10,000, and must leave room for others.
	maxExtras = 100_000
	// extraGrace is how long such a URI is kept while nobody is subscribed to it: a
	// client asks whether it can be, and then it is.
	extraGrace = 10 * time.Second
	// pruneSpacing is the least time between two looks at what nobody is subscribed to.
	pruneSpacing = time.Second
)

// extras are the URIs that clients asked for and that are not found from what
// changes: pages of recent, and other spellings. What is kept is what somebody is
// subscribed to, or asked for a moment ago.
type extras struct {
	mu sync.Mutex // not held while subscribed is called, which has locks of its own

	subscribed func(uri string) bool // nil before Run
	asked      map[string]time.Time  // when each was asked for last
	forms      map[target][]string   // the same by what they lead to
	pruned     time.Time
}

// listen says who knows what is subscribed to. Before, nothing is dropped.
func (x *extras) listen(subscribed func(uri string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.subscribed = subscribed
}

// add takes a URI in, or reports that there are too many.
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

// pages returns the pages of recent that somebody asked for.
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

// prune drops what nobody is subscribed to any more, once in a while.
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
		if now.Sub(x.asked[uri]) > extraGrace { // else it was asked for again
			delete(x.asked, uri)
		}
	}
	for t, uris := range x.forms {
		uris = slices.DeleteFunc(uris, func(uri string) bool { _, kept := x.asked[uri]; return !kept })
		if x.forms[t] = uris; len(uris) == 0 {
			delete(x.forms, t)
		}
	}
}
