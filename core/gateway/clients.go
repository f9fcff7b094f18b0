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
	"github.com/mcptrack/mcptrack/core/serve"
)

// Bounds of sessions for single clients, each of which may be a process.
const (
	maxOwn          = 256 // in all
	maxOwnPerServer = 64
	// ownIdle is how long a session is kept for the next request of clients of the
	// modern era, which have no sessions; parkedFor is how long tasks go on without
	// their client.
	ownIdle   = time.Minute
	parkedFor = 15 * time.Minute
)

// clients keeps the sessions with servers that the gateway opens for one client alone, and
// bounds their number.
type clients struct {
	g      *Gateway
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup // dials, ends of sessions, sessions that are lent, and one for each client

	mu       sync.Mutex
	sessions int
	servers  map[string]int // of sessions
	all      map[*serve.Client]*client
	parked   []*own               // the oldest first
	idle     []*own               // the oldest first
	failed   map[string]time.Time // when no session with a server could be lent
}

type client struct {
	level map[string]json.RawMessage // params of its last logging/setLevel; nil: none
	own   map[string]*own            // by server
	more  []*own                     // with tasks that the client took over
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
	c.all, c.servers, c.failed = map[*serve.Client]*client{}, map[string]int{}, map[string]time.Time{}
}

// close ends all sessions and waits for them.
func (c *clients) close() {
	c.mu.Lock()
	c.cancel()
	for _, o := range slices.Concat(c.parked, c.idle) {
		c.end(o)
	}
	c.parked, c.idle = nil, nil
	c.mu.Unlock()
	c.wg.Wait()
}

// session returns the session with a server in which a client gets its own messages;
// nil if it needs none, or if none can be made: then it shares one, unless the server
// must not be shared.
func (c *clients) session(ctx context.Context, v *view, r *serve.Request, server string) (*own, error) {
	srv, found := entryOf(c.g.wanted(), server)
	if r.Client == nil || !found || !v.asks[server] && !srv.Unshared {
		return nil, nil
	}
	o := c.sessionOf(ctx, r, srv)
	if o == nil && srv.Unshared {
		return nil, errNoSession
	}
	return o, nil
}

var errNoSession = errors.New("cannot open a separate session for this client, and the config forbids sharing one")

func (c *clients) sessionOf(ctx context.Context, r *serve.Request, srv config.Server) *own {
	server := srv.ID
	c.mu.Lock()
	known := c.all[r.Client]
	wanted := srv.Unshared || string(declared(r.Client.Capabilities)) != "{}" || known != nil && known.level != nil
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
		if !c.room(server) {
			c.mu.Unlock()
			return nil
		}
		o = newOwn(srv, declaredLegacy(r.Client.Capabilities), &legacyPeer{client: r.Client})
		known.own[server] = o
		c.begin(o, known.level)
	}
	c.mu.Unlock()
	return ready(ctx, o)
}

// ready waits until a session can be used; nil if it cannot.
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

// run runs f, which has to end with ending, in the background. It reports false if the
// gateway ends.
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

// room reports whether another session may begin. If not, one that nobody uses is ended,
// so that there is room soon. c.mu must be held.
func (c *clients) room(server string) bool {
	full := c.servers[server] >= maxOwnPerServer
	if !full && c.sessions < maxOwn {
		return true
	}
	for _, list := range []*[]*own{&c.idle, &c.parked} {
		if i := slices.IndexFunc(*list, func(o *own) bool { return !full || o.srv.ID == server }); i >= 0 {
			c.end((*list)[i])
			*list = slices.Delete(*list, i, i+1)
			break
		}
	}
	return false
}

// begin dials in the background. c.mu must be held.
func (c *clients) begin(o *own, level map[string]json.RawMessage) {
	c.sessions++
	c.servers[o.srv.ID]++
	c.wg.Go(func() { o.dial(c.ctx, c.g, level) })
}

// end ends a session in the background, which no list may hold any more. It counts until
// its process has ended. c.mu must be held.
func (c *clients) end(o *own) {
	c.g.tasks.forget(o)
	c.wg.Go(func() {
		o.close()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sessions--
		if c.servers[o.srv.ID]--; c.servers[o.srv.ID] == 0 {
			delete(c.servers, o.srv.ID)
		}
	})
}

// add registers a client until it leaves. c.mu must be held.
func (c *clients) add(of *serve.Client) *client {
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

// reconcile ends the sessions with servers that are configured otherwise by now, and
// those that nobody has used for long.
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
	maps.DeleteFunc(c.failed, func(_ string, at time.Time) bool { return time.Since(at) > ownRetry })
	c.parked = c.sweep(c.parked, func(o *own) bool { return stale(o) || o.s.Err() != nil || o.unused() > parkedFor })
	c.idle = c.sweep(c.idle, func(o *own) bool { return stale(o) || o.s.Err() != nil || o.unused() > o.keep() })
}

func (c *clients) sweep(list []*own, over func(*own) bool) []*own {
	return slices.DeleteFunc(list, func(o *own) bool {
		if over(o) {
			c.end(o)
			return true
		}
		return false
	})
}

// keep is how long the session is kept for clients of the modern era.
func (o *own) keep() time.Duration {
	if o.srv.Unshared {
		return parkedFor // its state belongs to them
	}
	return ownIdle
}

func (o *own) unused() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.since)
}
