package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// subscribable reports whether a client can subscribe to a URI, and starts an ad-hoc
// subscription if the config does not track the resource. The server that clients see
// calls it before it registers a subscription.
func (g *Gateway) subscribable(uri string) bool {
	v := g.view.Load()
	t, ok := v.resource(uri)
	if !ok || g.api(t.server) != nil {
		return false
	}
	if t.server == "" || tracked(v, g.wanted(), t) {
		return true
	}
	if _, ok := v.subscribes[t.server]; !ok {
		return false // there would never be an update
	}
	if !g.adhoc.add(t, uri) {
		return false
	}
	signal(g.adhocWake)
	return true
}

// signal wakes the receiver of a channel of capacity 1, without blocking.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tracked reports whether the resource is tracked according to the config.
func tracked(v *view, wanted []config.Server, t target) bool {
	if _, listed := v.byKey[catalog.Resources][v.export(t)]; !listed {
		return false
	}
	for _, srv := range wanted {
		if srv.ID == t.server {
			return srv.TrackResources && srv.Selects(t.key)
		}
	}
	return false
}

// syncAdhoc starts goroutines that subscribe to and unsubscribe from resources of servers,
// as the clients need.
func (l *loop) syncAdhoc() {
	g := l.g
	for _, t := range g.adhoc.unused(time.Now(), g.server.Subscriptions().Subscribed) {
		l.tasks.Go(func() {
			ctx, cancel := context.WithTimeout(l.ctx, subscribeTimeout)
			defer cancel()
			_ = g.tracker.Client(t.server).Unsubscribe(ctx, t.key) // on an error the subscription ends with the session
			if g.adhoc.released(t) {
				signal(g.adhocWake)
			}
		})
	}
	for server, uris := range g.adhoc.pending(time.Now(), func(server string) bool { return l.ready[server] }) {
		l.tasks.Go(func() { l.subscribe(server, uris) })
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
			err := l.g.tracker.Client(server).Subscribe(ctx, uri)
			lost := ctx.Err() != nil || errors.Is(err, tracker.ErrNotConnected) || errors.Is(err, session.ErrClosed)
			first := l.g.adhoc.attempted(t, err != nil && !lost)
			if err == nil {
				l.g.updated(t) // changes before this moment were not announced
				return
			}
			if first {
				logged.Do(func() {
					l.g.opts.Logger.Warn("cannot subscribe to a resource for a client", "server", printable.Line(server, 128),
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
