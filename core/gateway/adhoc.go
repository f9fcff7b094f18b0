package gateway

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// adhocSet holds the ad-hoc subscriptions: resources that clients subscribed to but the
// config does not track, such as those of templates. The tracker subscribes to them in
// the current session of their server, and again in every new one.
type adhocSet struct {
	// limit is the maximum number of resources; it does not change. Unused ones stay for
	// minAdhocAge, so clients that come and go could otherwise add ever more.
	limit int

	mu   sync.Mutex
	subs map[target]*adhocSub
}

// adhocSub is one ad-hoc subscription. At most one goroutine at a time subscribes or
// unsubscribes upstream for it, so that the last request wins.
type adhocSub struct {
	uris          map[string]struct{} // the URIs that clients used for the resource
	since         time.Time           // when a client last asked to subscribe
	active        bool                // the current session with the server is subscribed
	retry         *backoff.Backoff    // spaces the attempts; nil unless the last one was rejected
	next          time.Time           // the earliest time of the next attempt; zero: now
	subscribing   bool                // a goroutine is subscribing
	unsubscribing bool                // a goroutine is unsubscribing
}

// minAdhocAge is how long an ad-hoc subscription is kept after a client asked for it, even
// if no client is subscribed: it is added just before the client is registered as a
// subscriber.
const minAdhocAge = 10 * time.Second

const (
	subscribeTimeout = 30 * time.Second
	maxSubscribing   = 64               // requests to one server at the same time
	maxRetryDelay    = 10 * time.Minute // between attempts that the server rejects
)

// add records that a client asked to subscribe to a resource, under uri. It reports false
// if the limit of ad-hoc subscriptions is reached.
func (d *adhocSet) add(t target, uri string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.subs == nil {
		d.subs = map[target]*adhocSub{}
	}
	w, ok := d.subs[t]
	if !ok {
		if len(d.subs) >= d.limit {
			return false
		}
		w = &adhocSub{uris: map[string]struct{}{}}
		d.subs[t] = w
	}
	w.uris[uri] = struct{}{}
	w.since = time.Now()
	return true
}

// uris returns the URIs that clients used for any ad-hoc subscription.
func (d *adhocSet) uris() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, w := range d.subs {
		all = slices.AppendSeq(all, maps.Keys(w.uris))
	}
	return all
}

// servers returns the ids of the servers with ad-hoc subscriptions.
func (d *adhocSet) servers() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := map[string]struct{}{}
	for t := range d.subs {
		ids[t.server] = struct{}{}
	}
	return slices.Collect(maps.Keys(ids))
}

// aliases returns the URIs that clients used for a resource.
func (d *adhocSet) aliases(t target) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	w, ok := d.subs[t]
	if !ok {
		return nil
	}
	return slices.Collect(maps.Keys(w.uris))
}

// setActive records which ad-hoc subscriptions the current session with a server has;
// none once the session has ended. uris must be sorted. It reports whether any
// subscription that was active no longer is.
func (d *adhocSet) setActive(server string, uris []string) (lost bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for t, w := range d.subs {
		if t.server == server {
			was := w.active
			_, w.active = slices.BinarySearch(uris, t.key)
			lost = lost || was && !w.active
		}
	}
	return lost
}

// unused returns the resources to which no client is subscribed any more and marks them as
// unsubscribing. The caller must unsubscribe from each and then call released.
func (d *adhocSet) unused(now time.Time, subscribed func(uri string) bool) (gone []target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for t, w := range d.subs {
		if now.Sub(w.since) < minAdhocAge || w.subscribing || w.unsubscribing {
			continue
		}
		for uri := range w.uris {
			if !subscribed(uri) {
				delete(w.uris, uri)
			}
		}
		if len(w.uris) == 0 {
			w.unsubscribing = true
			gone = append(gone, t)
		}
	}
	return gone
}

// released records that the request to unsubscribe from a resource has ended, and removes
// the ad-hoc subscription. If a client has asked for it again meanwhile, it stays and
// released reports true.
func (d *adhocSet) released(t target) (back bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.subs[t]
	w.unsubscribing, w.active = false, false
	if len(w.uris) == 0 {
		delete(d.subs, t)
		return false
	}
	return true
}

// pending returns the URIs to subscribe to now, by server, and marks them as subscribing.
// The caller must subscribe to each and then call attempted. ready reports whether a
// server is connected.
func (d *adhocSet) pending(now time.Time, ready func(server string) bool) (todo map[string][]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	todo = map[string][]string{}
	for t, w := range d.subs {
		if !w.active && !w.subscribing && !w.unsubscribing && !now.Before(w.next) && ready(t.server) {
			w.subscribing = true
			todo[t.server] = append(todo[t.server], t.key)
		}
	}
	return todo
}

// attempted records the end of a request to subscribe. After a rejection (refused) the
// next attempt is delayed; that a subscription took effect is recorded by setActive. It
// reports whether this is the first rejection in a row.
func (d *adhocSet) attempted(t target, refused bool) (first bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.subs[t]
	w.subscribing = false
	if !refused {
		w.retry, w.next = nil, time.Time{}
		return false
	}
	if first = w.retry == nil; first {
		w.retry = backoff.New(refreshInterval, maxRetryDelay)
	}
	w.next = time.Now().Add(w.retry.Next())
	return first
}
