package gateway

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

const (
	// minAdhocAge is how long an ad-hoc subscription is kept after a client asked for it, even
	// if no client is subscribed: it is added just before the client is registered as a
	// subscriber.
	minAdhocAge      = 10 * time.Second
	subscribeTimeout = 30 * time.Second
	maxSubscribing   = 64               // requests in flight to one server
	maxRetryDelay    = 10 * time.Minute // between attempts that the server rejects
	maxParents       = 64               // levels above an updated resource whose subscribers are notified
)

// adhocSet holds the ad-hoc subscriptions: resources that clients subscribed to but the
// config does not track, such as resources of templates. The tracker subscribes to them in
// the current session of their server, and again in every new session.
type adhocSet struct {
	// limit is the maximum number of resources; it does not change. Unused ones stay for
	// minAdhocAge, so without a limit clients that come and go could add ever more.
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
	retry         *backoff.Backoff    // spaces the attempts; nil unless the last attempt was rejected
	next          time.Time           // the earliest time of the next attempt; zero: now
	subscribing   bool                // a goroutine is subscribing
	unsubscribing bool                // a goroutine is unsubscribing
}

// add records that a client asked to subscribe to a resource, under uri. It reports false
// if the limit of ad-hoc subscriptions is reached.
func (a *adhocSet) add(t target, uri string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.subs == nil {
		a.subs = map[target]*adhocSub{}
	}
	sub, ok := a.subs[t]
	if !ok {
		if len(a.subs) >= a.limit {
			return false
		}
		sub = &adhocSub{uris: map[string]struct{}{}}
		a.subs[t] = sub
	}
	sub.uris[uri] = struct{}{}
	sub.since = time.Now()
	return true
}

// uris returns the URIs that clients used for any ad-hoc subscription.
func (a *adhocSet) uris() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, sub := range a.subs {
		all = slices.AppendSeq(all, maps.Keys(sub.uris))
	}
	return all
}

// servers returns the ids of the servers with ad-hoc subscriptions.
func (a *adhocSet) servers() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := map[string]struct{}{}
	for t := range a.subs {
		ids[t.server] = struct{}{}
	}
	return slices.Collect(maps.Keys(ids))
}

// aliases returns the URIs that clients used for a resource.
func (a *adhocSet) aliases(t target) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub, ok := a.subs[t]
	if !ok {
		return nil
	}
	return slices.Collect(maps.Keys(sub.uris))
}

// setActive records which ad-hoc subscriptions the current session with a server has; none
// once the session has ended. uris must be sorted. It reports whether a subscription that
// was active no longer is.
func (a *adhocSet) setActive(server string, uris []string) (lost bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for t, sub := range a.subs {
		if t.server == server {
			was := sub.active
			_, sub.active = slices.BinarySearch(uris, t.key)
			lost = lost || was && !sub.active
		}
	}
	return lost
}

// unused returns the resources to which no client is subscribed any more and marks them as
// unsubscribing. The caller must unsubscribe from each and then call released.
func (a *adhocSet) unused(now time.Time, subscribed func(uri string) bool) (gone []target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for t, sub := range a.subs {
		if now.Sub(sub.since) < minAdhocAge || sub.subscribing || sub.unsubscribing {
			continue
		}
		for uri := range sub.uris {
			if !subscribed(uri) {
				delete(sub.uris, uri)
			}
		}
		if len(sub.uris) == 0 {
			sub.unsubscribing = true
			gone = append(gone, t)
		}
	}
	return gone
}

// released records that the request to unsubscribe from a resource has ended, and removes
// the ad-hoc subscription. If a client has asked for it again meanwhile, it stays and
// released reports true.
func (a *adhocSet) released(t target) (back bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub := a.subs[t]
	sub.unsubscribing, sub.active = false, false
	if len(sub.uris) == 0 {
		delete(a.subs, t)
		return false
	}
	return true
}

// pending returns the URIs to subscribe to now, by server, and marks them as subscribing.
// The caller must subscribe to each and then call attempted. ready reports whether a
// server is connected.
func (a *adhocSet) pending(now time.Time, ready func(server string) bool) (todo map[string][]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	todo = map[string][]string{}
	for t, sub := range a.subs {
		if !sub.active && !sub.subscribing && !sub.unsubscribing && !now.Before(sub.next) && ready(t.server) {
			sub.subscribing = true
			todo[t.server] = append(todo[t.server], t.key)
		}
	}
	return todo
}

// attempted records the end of a request to subscribe. After a rejection the next attempt is
// delayed; setActive records that a subscription took effect. It reports whether this is the
// first of consecutive rejections.
func (a *adhocSet) attempted(t target, rejected bool) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub := a.subs[t]
	sub.subscribing = false
	if !rejected {
		sub.retry, sub.next = nil, time.Time{}
		return false
	}
	if first = sub.retry == nil; first {
		sub.retry = backoff.New(refreshInterval, maxRetryDelay)
	}
	sub.next = time.Now().Add(sub.retry.Next())
	return first
}

// subscribable reports whether a client can subscribe to a URI, and starts an ad-hoc
// subscription if the config does not track the resource. The server that clients see
// calls it before it registers a subscription.
func (g *Gateway) subscribable(uri string) bool {
	v := g.view.Load()
	t, ok := v.resource(uri)
	if !ok || g.httpCatalog(t.server) != nil {
		return false
	}
	_, listed := v.byKey[catalog.Resources][v.export(t)]
	srv, _ := g.entry(t.server)
	if t.server == "" || listed && srv.TrackResources && srv.Selects(t.key) {
		return true
	}
	if !v.servers[t.server].subscribes {
		return false // there would never be an update
	}
	if !g.adhoc.add(t, uri) {
		return false
	}
	signal(g.adhocWake)
	return true
}

// loadActiveAdhoc records which ad-hoc subscriptions the current sessions have.
func (l *loop) loadActiveAdhoc() {
	for _, server := range l.adhoc.servers() {
		l.adhoc.setActive(server, l.tracker.Client(server).Subscriptions())
	}
}

// syncAdhoc starts goroutines that subscribe to and unsubscribe from resources of servers,
// as the clients need.
func (l *loop) syncAdhoc() {
	for _, t := range l.adhoc.unused(time.Now(), l.server.Subscriptions().Subscribed) {
		l.running.Go(func() {
			ctx, cancel := context.WithTimeout(l.ctx, subscribeTimeout)
			defer cancel()
			_ = l.tracker.Client(t.server).Unsubscribe(ctx, t.key) // on an error the subscription ends with the session
			if l.adhoc.released(t) {
				signal(l.adhocWake)
			}
		})
	}
	for server, uris := range l.adhoc.pending(time.Now(), func(server string) bool { return l.ready[server] }) {
		l.running.Go(func() { l.subscribe(server, uris) })
	}
}

// subscribe subscribes to resources of a server concurrently, so that the tracker makes
// one sync for many of them.
func (l *loop) subscribe(server string, uris []string) {
	ctx, cancel := context.WithTimeout(l.ctx, subscribeTimeout)
	defer cancel()
	var (
		wg     sync.WaitGroup
		slots  = make(chan struct{}, maxSubscribing)
		logged sync.Once
	)
	defer wg.Wait()
	for _, uri := range uris {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			t := target{server, uri}
			err := l.tracker.Client(server).Subscribe(ctx, uri)
			lost := ctx.Err() != nil || errors.Is(err, tracker.ErrNotConnected) || errors.Is(err, session.ErrClosed)
			first := l.adhoc.attempted(t, err != nil && !lost)
			if err == nil {
				l.updated(t) // earlier changes were not announced
				return
			}
			if first {
				logged.Do(func() {
					l.opts.Logger.Warn("cannot subscribe to a resource for a client", "server", printable.Line(server, 128),
						"uri", printable.Line(uri, 300), "err", printable.Reason(err, 500))
				})
			}
		})
	}
}

// offersUpdates reports whether a server supports the subscriptions that ad-hoc
// subscriptions need.
func offersUpdates(srv config.Server, info session.Info) bool {
	return srv.Transport != config.TransportCatalog && info.Capabilities.Resources && info.Capabilities.ResourcesSubscribe
}

// updated notifies the subscribers of a resource that it changed: under its exported URI, its
// qualified URI and the URIs that clients used. Subscribers of a parent of the URI are
// notified of the parent, as servers announce children of subscribed resources.
func (g *Gateway) updated(t target) {
	v := g.view.Load()
	if _, ours := v.servers[t.server]; !ours || t.key == "" {
		return
	}
	uris := []string{v.export(t), qualify(t.server, t.key)}
	for _, uri := range g.adhoc.aliases(t) { // unless the URI leads to another server by now
		if at, ok := v.locate(uri); ok && at == t {
			uris = append(uris, uri)
		}
	}
	subs := g.server.Subscriptions()
	rest := t.key
	for range maxParents {
		i := strings.LastIndexAny(rest, "/?#")
		if i <= 0 {
			break
		}
		for _, parent := range []string{rest[:i+1], rest[:i]} { // either may be subscribed
			if parent == t.key {
				continue
			}
			if uri := qualify(t.server, parent); subs.Subscribed(uri) {
				uris = append(uris, uri)
			}
			if subs.Subscribed(parent) && v.export(target{t.server, parent}) == parent {
				uris = append(uris, parent)
			}
		}
		rest = rest[:i]
	}
	g.server.Updated(uris...)
}

// updatedAll notifies all subscribers of all resources.
func (g *Gateway) updatedAll() {
	for uri := range g.view.Load().byKey[catalog.Resources] {
		g.server.Updated(uri)
	}
	g.server.Updated(g.adhoc.uris()...)
}
