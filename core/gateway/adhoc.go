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
	// minAdhocAge is how long an ad-hoc subscription is kept after a client asked for it, even if
	// no client is subscribed, because it is added just before the client is registered as a
	// subscriber.
	minAdhocAge      = 10 * time.Second
	subscribeTimeout = 30 * time.Second
	// unsubscribeTimeout limits how long Run waits when it returns; the tracker may be stopping.
	unsubscribeTimeout = 5 * time.Second
	maxSubscribing     = 64               // maximum number of concurrent subscribe requests to one server
	maxRetryDelay      = 10 * time.Minute // maximum delay between attempts that the server rejects
	maxParents         = 64               // number of parent URIs of an updated resource whose subscribers are notified
)

// adhocSet holds the ad-hoc subscriptions: resources that clients subscribed to but that the config
// does not track, such as resources of templates. The tracker subscribes to them in the current
// session with their server, and again in every new session.
type adhocSet struct {
	// limit is the maximum number of resources; it does not change. Unused subscriptions are kept
	// for minAdhocAge, so without a limit, short-lived clients could add an unlimited number.
	limit int
	// demand keeps a server awake; nil without servers. It does not change.
	demand func(server string) (release func())

	mu     sync.Mutex
	subs   map[target]*adhocSub
	closed bool // nothing is added any longer
}

// adhocSub is one ad-hoc subscription. At most one goroutine at a time sends subscribe or
// unsubscribe requests for it, so that the most recent request takes effect.
type adhocSub struct {
	uris          map[string]struct{} // the URIs by which clients refer to the resource
	release       func()              // ends the demand for the server; nil if there is none
	tracked       bool                // the config tracks the resource, so only the demand is needed
	since         time.Time           // when a client last asked to subscribe to the resource
	active        bool                // subscribed in the current session with the server
	retry         *backoff.Backoff    // delays further attempts; nil unless the last attempt was rejected
	next          time.Time           // earliest time of the next attempt; zero means now
	subscribing   bool                // a goroutine is sending a subscribe request
	unsubscribing bool                // a goroutine is sending an unsubscribe request
}

// add records that a client asked to subscribe to a resource by the given URI. tracked reports
// whether the config tracks the resource. add returns false if the maximum number of ad-hoc
// subscriptions is reached.
func (a *adhocSet) add(t target, uri string, tracked bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	if a.subs == nil {
		a.subs = map[target]*adhocSub{}
	}
	sub, ok := a.subs[t]
	if !ok {
		if len(a.subs) >= a.limit {
			return false
		}
		sub = &adhocSub{uris: map[string]struct{}{}}
		if a.demand != nil {
			sub.release = a.demand(t.server)
		}
		a.subs[t] = sub
	}
	sub.tracked = tracked
	sub.uris[uri] = struct{}{}
	sub.since = time.Now()
	return true
}

// uris returns all URIs by which clients refer to ad-hoc subscriptions.
func (a *adhocSet) uris() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []string
	for _, sub := range a.subs {
		all = slices.AppendSeq(all, maps.Keys(sub.uris))
	}
	return all
}

func (a *adhocSet) servers() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := map[string]struct{}{}
	for t := range a.subs {
		ids[t.server] = struct{}{}
	}
	return slices.Collect(maps.Keys(ids))
}

// aliases returns the URIs by which clients refer to a resource.
func (a *adhocSet) aliases(t target) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub, ok := a.subs[t]
	if !ok {
		return nil
	}
	return slices.Collect(maps.Keys(sub.uris))
}

// delete removes an ad-hoc subscription. a.mu must be held.
func (a *adhocSet) delete(t target) {
	if sub := a.subs[t]; sub.release != nil {
		sub.release()
	}
	delete(a.subs, t)
}

// close removes all ad-hoc subscriptions for good and returns the ids of their servers.
func (a *adhocSet) close() (servers []string) {
	servers = a.servers()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for t := range a.subs {
		a.delete(t)
	}
	return servers
}

// lost records that ad-hoc subscriptions may have ended.
func (a *adhocSet) lost() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, sub := range a.subs {
		sub.active = false
	}
}

// keepActive records which subscriptions exist in the current session with a server, of all users of
// the tracker; uris is empty once the session has ended. uris must be sorted. lost reports whether a
// subscription has become inactive.
func (a *adhocSet) keepActive(server string, uris []string) (lost bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for t, sub := range a.subs {
		if t.server == server {
			_, exists := slices.BinarySearch(uris, t.key)
			lost = lost || sub.active && !exists
			sub.active = sub.active && exists
		}
	}
	return lost
}

// unused returns the resources that no longer have subscribed clients, and marks them as
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
		switch {
		case len(sub.uris) > 0:
		case sub.tracked && !sub.active:
			a.delete(t)
		default:
			sub.unsubscribing = true
			gone = append(gone, t)
		}
	}
	return gone
}

// released records that the unsubscribe request for a resource has completed, and removes the
// ad-hoc subscription. If a client has asked for it again in the meantime, it is kept and back is
// true.
func (a *adhocSet) released(t target) (back bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub := a.subs[t]
	if sub == nil {
		return false
	}
	sub.unsubscribing, sub.active = false, false
	if len(sub.uris) == 0 {
		a.delete(t)
		return false
	}
	return true
}

// pending returns the URIs to subscribe to now, grouped by server, and marks them as subscribing.
// The caller must subscribe to each and then call attempted. ready reports whether a server is
// connected.
func (a *adhocSet) pending(now time.Time, ready func(server string) bool) (todo map[string][]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	todo = map[string][]string{}
	for t, sub := range a.subs {
		if !sub.active && !sub.tracked && !sub.subscribing && !sub.unsubscribing && !now.Before(sub.next) && ready(t.server) {
			sub.subscribing = true
			todo[t.server] = append(todo[t.server], t.key)
		}
	}
	return todo
}

// attempted records that a subscribe request has completed. After a rejection, the next attempt is
// delayed. first reports whether this is the first of consecutive rejections. exists reports whether
// the subscription exists now. It is called with a.mu held, so that keepActive handles an end of the
// session afterwards.
func (a *adhocSet) attempted(t target, rejected bool, exists func() bool) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub := a.subs[t]
	if sub == nil {
		return false
	}
	sub.subscribing, sub.active = false, exists()
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

// subscribable reports whether clients can subscribe to a URI, and starts an ad-hoc subscription if
// the config does not track the resource. The MCP server that clients connect to calls it before it
// registers a subscription. Clients cannot subscribe to what they cannot read before the user approves it.
func (g *Gateway) subscribable(uri string) bool {
	v := g.exports.Load()
	t, ok := v.resource(uri)
	rt := &route{g: g, v: v, server: t.server, item: itemID{catalog.Resources, t}}
	if !ok || g.httpCatalog(t.server) != nil || t.server != "" && rt.refused() != nil {
		return false
	}
	_, listed := v.byKey[catalog.Resources][v.export(t)]
	srv, _ := g.entry(t.server)
	if t.server == "" || listed && srv.TrackResources && srv.Selects(t.key) {
		if t.server != "" && g.tracker.OnDemand() {
			g.adhoc.add(t, uri, true) // keeps the server awake
		}
		return true
	}
	if !v.servers[t.server].subscribes {
		return false // the server never sends updates
	}
	if !g.adhoc.add(t, uri, false) {
		return false
	}
	g.adhocWake.Send()
	return true
}

// upstream returns the tracker's client for a server. Its subscriptions are independent of those of
// other gateways.
func (l *loop) upstream(server string) *tracker.Client { return l.tracker.ClientOf(server, l.base) }

func (l *loop) endAdhoc() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), unsubscribeTimeout)
	var ending sync.WaitGroup
	for _, server := range l.adhoc.close() {
		ending.Go(func() { _ = l.upstream(server).UnsubscribeAll(ctx) }) // after an error, they end with the session
	}
	ending.Wait()
	cancel()
}

// syncAdhoc starts goroutines that subscribe to and unsubscribe from resources, so that upstream
// subscriptions match those of the clients.
func (l *loop) syncAdhoc() {
	for _, t := range l.adhoc.unused(time.Now(), l.server.Subscriptions().Subscribed) {
		l.running.Go(func() {
			ctx, cancel := context.WithTimeout(l.ctx, subscribeTimeout)
			defer cancel()
			_ = l.upstream(t.server).Unsubscribe(ctx, t.key) // after an error, the subscription ends with the session
			if l.adhoc.released(t) {
				l.adhocWake.Send()
			}
		})
	}
	for server, uris := range l.adhoc.pending(time.Now(), func(server string) bool { return l.ready[server] }) {
		l.running.Go(func() { l.subscribe(server, uris) })
	}
}

// subscribe sends subscribe requests for resources of a server concurrently, so that the tracker
// synchronizes its subscriptions only once for many of them.
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
			err := l.upstream(server).Subscribe(ctx, uri)
			lost := ctx.Err() != nil || errors.Is(err, tracker.ErrNotConnected) || errors.Is(err, session.ErrClosed)
			first := l.adhoc.attempted(t, err != nil && !lost, func() bool { return err == nil && l.upstream(server).Subscribed(uri) })
			if err == nil {
				l.updated(t) // changes before the subscription were not announced
				return
			}
			if first {
				logged.Do(func() {
					l.opts.Logger.Warn("cannot subscribe to a resource for a client", "server", l.alias().line(server),
						"uri", printable.Line(uri, 300), "err", printable.Reason(err, 500))
				})
			}
		})
	}
}

// offersUpdates reports whether a server supports the resource subscriptions on which ad-hoc
// subscriptions rely.
func offersUpdates(srv config.Server, info session.Info) bool {
	return srv.Transport != config.TransportCatalog && info.Capabilities.Resources && info.Capabilities.ResourcesSubscribe
}

// updated notifies the subscribers of a resource that it has changed. They may be subscribed to its
// exported URI, its qualified URI or any other URI that clients used for it. Subscribers to a
// parent of the URI receive an update for the parent, because servers also announce changes to
// children of subscribed resources.
func (g *Gateway) updated(t target) {
	v := g.exports.Load()
	if _, ours := v.servers[t.server]; !ours || t.key == "" {
		return
	}
	uris := []string{v.export(t), g.alias().qualify(t)}
	for _, uri := range g.adhoc.aliases(t) { // skip if the URI now resolves to another server
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
		for _, parent := range []string{rest[:i+1], rest[:i]} { // clients may be subscribed with or without the trailing slash
			if parent == t.key {
				continue
			}
			if uri := g.alias().qualify(target{t.server, parent}); subs.Subscribed(uri) {
				uris = append(uris, uri)
			}
			if subs.Subscribed(parent) && v.export(target{t.server, parent}) == parent {
				uris = append(uris, parent)
			}
		}
		rest = rest[:i]
	}
	g.server.Updated(v.shown(uris)...)
}

// shown returns the URIs that the filter admits: it may have admitted more when clients subscribed to them.
func (v *exports) shown(uris []string) []string {
	if v.filter.empty() {
		return uris
	}
	return slices.DeleteFunc(uris, func(uri string) bool {
		_, ok := v.resource(uri)
		return !ok
	})
}

// updatedAll notifies every client of an update of every resource to which it is subscribed.
func (g *Gateway) updatedAll() {
	v := g.exports.Load()
	for uri := range v.byKey[catalog.Resources] {
		g.server.Updated(uri)
	}
	g.server.Updated(v.shown(g.adhoc.uris())...)
}
