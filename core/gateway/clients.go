package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// Bounds of the sessions with servers that belong to one client. Each may be a process. See
// package fair for the part of them that each principal gets.
const (
	maxOwn          = 256 // sessions in all
	maxOwnPerServer = 64  // sessions
	// ownIdle is how long a session is kept for the next request of clients of the
	// modern era, which have no sessions; parkedFor is how long a session whose client
	// has left is kept for its tasks.
	ownIdle   = time.Minute
	parkedFor = 15 * time.Minute
)

// clients keeps the sessions with servers that the gateway opens for one client alone, and
// bounds their number.
type clients struct {
	g      *Gateway
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup // background work, sessions that are lent, and one for each client

	mu       sync.Mutex
	sessions fair.Limit             // the sessions, including those that are ending
	servers  map[string]*fair.Limit // the sessions of each server, by id
	all      map[*mcpserver.Client]*client
	parked   []*own                  // sessions with tasks whose client has left, the oldest first
	idle     []*own                  // sessions for the next modern request, the oldest first
	failed   map[[2]string]time.Time // by principal and server id: when no session could be opened to be lent
	shared   map[string]*own         // sessions of the modern era, see inModern, by server id
	// modernOnly are servers that are known not to speak the legacy era, by id.
	modernOnly map[string]modernOnly
}

// client holds what belongs to one connected client of the legacy era.
type client struct {
	own  map[string]*own // its sessions, by server id
	more []*own          // sessions with tasks that it took over from clients that left
}

func (k *client) sessions() []*own {
	list := slices.Clone(k.more)
	for _, o := range k.own {
		list = append(list, o)
	}
	return list
}

func (c *clients) start(g *Gateway) {
	c.g = g
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.sessions.Max = maxOwn
	c.all, c.servers, c.failed = map[*mcpserver.Client]*client{}, map[string]*fair.Limit{}, map[[2]string]time.Time{}
	c.shared, c.modernOnly = map[string]*own{}, map[string]modernOnly{}
}

// close ends all sessions and waits for them.
func (c *clients) close() {
	c.mu.Lock()
	c.cancel()
	for _, o := range slices.Concat(c.parked, c.idle) {
		c.end(o)
	}
	c.parked, c.idle = nil, nil
	for server, o := range c.shared {
		delete(c.shared, server)
		c.end(o)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// session returns the session with a server that belongs to the client of a request. nil
// means that the request uses the shared session: because the client needs none of its
// own, or because none can be opened. If the server must not be shared, the latter is an
// error.
func (c *clients) session(ctx context.Context, v *view, r *mcpserver.Request, server string) (*own, error) {
	srv, found := entryOf(c.g.wanted(), server)
	if r.Client == nil || !found {
		return nil, nil
	}
	legacy := c.inLegacy(v, srv)
	if !legacy && !srv.Unshared {
		return nil, nil
	}
	o := c.sessionOf(ctx, r, srv, legacy)
	if o == nil && srv.Unshared {
		return nil, errNoSession
	}
	return o, nil
}

var errNoSession = errors.New("cannot open a separate session for this client, and \"shared\": false in the config forbids using the shared one")

// sessionOf is like session. legacy says that the server speaks the legacy era, or may.
func (c *clients) sessionOf(ctx context.Context, r *mcpserver.Request, srv config.Server, legacy bool) *own {
	server := srv.ID
	c.mu.Lock()
	known := c.all[r.Client]
	level := levelOf(r.Client)
	wanted := srv.Unshared || string(declared(r.Client.Capabilities)) != "{}" || level != nil
	if !wanted || c.ctx.Err() != nil {
		c.mu.Unlock()
		return nil
	}
	if known == nil {
		known = c.add(r.Client)
	}
	o := known.own[server]
	if o != nil && isClosed(o.ready) {
		if ok, again := o.usable(); ok && !o.srv.Equal(srv) || !ok && again {
			delete(known.own, server)
			c.end(o)
			o = nil
		}
	}
	if o == nil {
		if !c.room(server, r.Principal) {
			c.mu.Unlock()
			return nil
		}
		o = newOwn(srv, declaredLegacy(r.Client.Capabilities), &legacyPeer{client: r.Client})
		o.ids = c.g.taskIDs(r.Principal, server)
		if legacy {
			o.era = session.EraLegacy
		}
		known.own[server] = o
		c.begin(o, level)
	}
	c.mu.Unlock()
	got := ready(ctx, o)
	if isClosed(o.ready) && legacy {
		c.learn(known, o)
	}
	return got
}

// ready waits until a session is dialled and returns it; nil if it cannot be used.
func ready(ctx context.Context, o *own) *own {
	select {
	case <-o.ready:
	case <-ctx.Done():
		return nil
	}
	if ok, _ := o.usable(); !ok {
		return nil
	}
	return o
}

// run calls f in the background; f must return when ending is done. It reports false,
// without calling f, if the gateway is ending.
func (c *clients) run(f func(ending context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	c.wg.Go(func() { f(c.ctx) })
	return true
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func entryOf(servers []config.Server, id string) (config.Server, bool) {
	for _, srv := range servers {
		if srv.ID == id {
			return srv, true
		}
	}
	return config.Server{}, false
}

// room reports whether another session of a principal with a server may begin. If not, it ends
// an idle or parked one of the same principal, so that there is room soon. c.mu must be held.
func (c *clients) room(server, principal string) bool {
	of := c.servers[server]
	full := of != nil && !of.Room(principal)
	if !full && c.sessions.Room(principal) {
		return true
	}
	for _, list := range []*[]*own{&c.idle, &c.parked} {
		i := slices.IndexFunc(*list, func(o *own) bool { return o.ids.principal == principal && (!full || o.srv.ID == server) })
		if i >= 0 {
			c.end((*list)[i])
			*list = slices.Delete(*list, i, i+1)
			break
		}
	}
	return false
}

// begin counts a new session, for which there is room, and dials it in the background. level
// holds the params of a logging/setLevel; nil: none. c.mu must be held.
func (c *clients) begin(o *own, level map[string]json.RawMessage) {
	of := c.servers[o.srv.ID]
	if of == nil {
		of = &fair.Limit{Max: maxOwnPerServer}
		c.servers[o.srv.ID] = of
	}
	c.sessions.Take(o.ids.principal)
	of.Take(o.ids.principal)
	c.wg.Go(func() { o.dial(c.ctx, c.g, level) })
}

// end closes a session in the background. The caller has taken it out of all lists. It
// counts as one of the sessions until its process has ended. c.mu must be held.
func (c *clients) end(o *own) {
	c.g.tasks.forget(o)
	c.wg.Go(func() {
		o.close()
		c.mu.Lock()
		defer c.mu.Unlock()
		of := c.servers[o.srv.ID]
		c.sessions.Give(o.ids.principal)
		if of.Give(o.ids.principal); of.All() == 0 {
			delete(c.servers, o.srv.ID)
		}
	})
}

// add registers a client until it leaves: then its sessions with tasks are parked, and the
// others end. c.mu must be held.
func (c *clients) add(of *mcpserver.Client) *client {
	known := &client{own: map[string]*own{}}
	c.all[of] = known
	of.OnNotification(func(method string, params json.RawMessage) { c.fromClient(of, method, params) })
	c.wg.Go(func() {
		select {
		case <-of.Done():
		case <-c.ctx.Done():
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, of)
		for _, o := range known.sessions() {
			if c.ctx.Err() == nil && c.g.tasks.goOn(o) {
				o.speakFor(nil, true)
				c.parked = append(c.parked, o)
			} else {
				c.end(o)
			}
		}
	})
	return known
}

// reconcile ends the sessions with servers whose config has changed, and the parked and
// idle ones that broke or were kept long enough.
func (c *clients) reconcile(desired []config.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stale := func(o *own) bool { return !slices.ContainsFunc(desired, o.srv.Equal) }
	for _, known := range c.all {
		for id, o := range known.own {
			if stale(o) {
				delete(known.own, id)
				c.end(o)
			}
		}
		known.more = c.sweep(known.more, stale)
	}
	maps.DeleteFunc(c.failed, func(_ [2]string, at time.Time) bool { return time.Since(at) > ownRetry })
	maps.DeleteFunc(c.modernOnly, func(_ string, of modernOnly) bool { return !slices.ContainsFunc(desired, of.entry.Equal) })
	maps.DeleteFunc(c.shared, func(_ string, o *own) bool {
		over := stale(o) || isClosed(o.ready) && (o.s == nil || o.s.Err() != nil || o.using.Load() == 0 && o.unused() > parkedFor)
		if over {
			c.end(o)
		}
		return over
	})
	c.parked = c.sweep(c.parked, func(o *own) bool { return stale(o) || o.s.Err() != nil || o.unused() > parkedFor })
	c.idle = c.sweep(c.idle, func(o *own) bool { return stale(o) || o.s.Err() != nil || o.unused() > o.keep() })
}

// sweep ends the sessions of a list for which over reports true, and returns the others.
// c.mu must be held.
func (c *clients) sweep(list []*own, over func(*own) bool) []*own {
	return slices.DeleteFunc(list, func(o *own) bool {
		if over(o) {
			c.end(o)
			return true
		}
		return false
	})
}

// keep is how long the session, once idle, is kept for requests of modern clients.
func (o *own) keep() time.Duration {
	if o.srv.Unshared {
		return parkedFor // the server has state for these clients in it
	}
	return ownIdle
}

func (o *own) unused() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.since)
}
