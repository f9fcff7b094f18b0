package gateway

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// connecting is how long a request waits for a server that is being connected: its timeout, and the time in
// which its lists are compared.
func (b *base) connecting(srv config.Server) time.Duration {
	return cmp.Or(srv.ConnectTimeout, b.opts.Session.ConnectTimeout, dialTimeout) + 5*time.Second
}

// clientDemands keeps the servers awake that connected clients have used, until they disconnect. It
// is used only if the tracker connects its servers on demand.
type clientDemands struct {
	*base
	mu       sync.Mutex
	byClient map[*mcpserver.Client]map[string]func() // functions that end the demand, by server id
}

// hold keeps a server awake until release is called or, if the request belongs to a connection,
// until the client has disconnected.
func (d *clientDemands) hold(r *mcpserver.Request, server string) (release func()) {
	if r.Client == nil {
		return d.tracker.Demand(server)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	held := d.byClient[r.Client]
	if held == nil {
		held = map[string]func(){}
		if !d.run(func(ending context.Context) {
			select {
			case <-r.Client.Done():
			case <-ending.Done():
			}
			d.release(r.Client)
		}) {
			return d.tracker.Demand(server) // the gateway is stopping
		}
		d.byClient[r.Client] = held
	}
	if held[server] == nil {
		held[server] = d.tracker.Demand(server)
	}
	return func() {}
}

func (d *clientDemands) release(of *mcpserver.Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, release := range d.byClient[of] {
		release()
	}
	delete(d.byClient, of)
}

// reconcile ends the demand for servers that are no longer exported.
func (d *clientDemands) reconcile(enabled []config.Server) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, held := range d.byClient {
		for server, release := range held {
			if !slices.ContainsFunc(enabled, func(srv config.Server) bool { return srv.ID == server }) {
				release()
				delete(held, server)
			}
		}
	}
}

// wake keeps the server of the route awake as hold does. If the server is asleep, wake waits until
// it is connected and the exports show its current state. It returns an error as soon as the server
// cannot be connected, and waits no longer than connecting may take.
func (rt *route) wake(ctx context.Context) (release func(), err error) {
	g := rt.g
	if !g.tracker.OnDemand() {
		return func() {}, nil
	}
	slept := g.tracker.Dormant(rt.server) // before the demand, because the server may fail to connect immediately
	release = g.demands.hold(rt.r, rt.server)
	if !slept && !g.tracker.Dormant(rt.server) {
		return release, nil
	}
	srv, _ := g.entry(rt.server)
	err = g.await(ctx, g.connecting(srv), func() (bool, error) {
		if g.tracker.Dormant(rt.server) {
			slept = true
			return false, nil
		}
		if slept {
			err = rt.awake(ctx)
		}
		return true, err
	})
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// awake replaces the route's exports after its server was woken, or returns why that failed.
func (rt *route) awake(ctx context.Context) error {
	st, _ := rt.g.tracker.Snapshot().Server(rt.server)
	if !st.Connected() && st.Error != "" {
		return tracker.ErrNotConnected
	}
	if err := rt.g.flush(ctx); err != nil {
		return err
	}
	rt.v = rt.g.exports.Load()
	return nil
}

// awaitUnlisted waits for the servers that have never been listed, because an item that a client uses
// may be one of theirs: a client of an earlier process may know it. It returns when found returns true
// or when these servers have been listed. It waits for a server that connects for the first time as
// long as that may take, and for one whose connection has failed no longer than Options.Grace.
func (g *Gateway) awaitUnlisted(ctx context.Context, found func() bool) {
	if !g.tracker.OnDemand() {
		return
	}
	for _, id := range g.unlisted() {
		defer g.tracker.Demand(id)()
	}
	grace := time.Now().Add(g.opts.Grace)
	_ = g.await(ctx, math.MaxInt64, func() (bool, error) {
		left := g.unlisted()
		if len(left) == 0 && g.flush(ctx) != nil || found() || len(left) == 0 || time.Now().After(grace) && !slices.ContainsFunc(left, g.tracker.Dormant) {
			return true, nil
		}
		for _, id := range left {
			g.tracker.RetrySoon(id)
		}
		return false, nil
	})
}

// await calls done after each change of a server's state, and every retryDelay, until it returns true or an error.
// It returns the error: tracker.ErrNotConnected after limit, and the cause when ctx is done.
func (g *Gateway) await(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	over, retry := time.NewTimer(limit), time.NewTicker(retryDelay)
	defer over.Stop()
	defer retry.Stop()
	for {
		changed := g.stateChange.Next()
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-retry.C:
		case <-over.C:
			return tracker.ErrNotConnected
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unlisted returns the ids of the servers that have never been listed, and may be soon. The tracker does
// not know a server yet if the config was applied to the gateway first.
func (g *Gateway) unlisted() (ids []string) {
	snap := g.tracker.Snapshot()
	for _, srv := range g.servers() {
		st, ok := snap.Server(srv.ID)
		if !ok || st.Info.Era == "" && (st.State == event.Connecting || st.State == event.Backoff || g.tracker.Dormant(srv.ID)) {
			ids = append(ids, srv.ID)
		}
	}
	return ids
}
