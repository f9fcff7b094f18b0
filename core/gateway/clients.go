package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/serve"
	"github.com/mcptrack/mcptrack/core/session"
)

// clients are the clients with sessions of their own.
type clients struct {
	g      *Gateway
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup // dials, ends of sessions, and one for each client

	mu       sync.Mutex
	sessions int
	all      map[*serve.Client]*client
}

type client struct {
	level map[string]json.RawMessage // params of its last logging/setLevel; nil: none
	own   map[string]*own            // by server
}

func (c *clients) start(g *Gateway) {
	c.g = g
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.all = map[*serve.Client]*client{}
}

// close ends all sessions and waits for them.
func (c *clients) close() {
	c.cancel()
	c.wg.Wait()
}

// session returns the session with a server in which a client gets its own messages;
// nil if it needs none, or if none can be made: then it shares one.
func (c *clients) session(ctx context.Context, v *view, r *serve.Request, server string) *own {
	if r.Client == nil || !v.asks[server] {
		return nil
	}
	c.mu.Lock()
	known := c.all[r.Client]
	wanted := string(declared(r.Client.Capabilities)) != "{}" || known != nil && known.level != nil
	srv, found := entryOf(c.g.wanted(), server)
	if !wanted || !found || c.ctx.Err() != nil {
		c.mu.Unlock()
		return nil
	}
	if known == nil {
		known = c.add(r.Client)
	}
	o := known.own[server]
	if o != nil && isClosed(o.ready) {
		if ok, again := o.usable(); ok && !o.srv.Equal(srv) || !ok && again {
			c.drop(known, o)
			o = nil
		}
	}
	if o == nil {
		if c.sessions >= maxOwn {
			c.mu.Unlock()
			return nil
		}
		o = &own{srv: srv, client: r.Client, ready: make(chan struct{}), done: make(chan struct{}), queue: make(chan func(), ownQueue)}
		known.own[server] = o
		c.sessions++
		level := known.level
		c.wg.Go(func() { o.dial(c.ctx, c.g, level) })
	}
	c.mu.Unlock()
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

// add registers a client until it leaves. c.mu must be held.
func (c *clients) add(of *serve.Client) *client {
	known := &client{own: map[string]*own{}}
	c.all[of] = known
	of.OnNotification(func(method string) {
		if method == mcp.NotificationRootsChanged {
			c.forEach(of, func(ctx context.Context, o *own) { _, _ = o.s.Do(ctx, session.Request{Method: method}) })
		}
	})
	c.wg.Go(func() {
		select {
		case <-of.Done():
		case <-c.ctx.Done():
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, of)
		for _, o := range known.own {
			c.drop(known, o)
		}
	})
	return known
}

// drop ends a session in the background. c.mu must be held.
func (c *clients) drop(known *client, o *own) {
	delete(known.own, o.srv.ID)
	c.wg.Go(func() {
		o.close()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sessions--
	})
}

// reconcile ends the sessions with servers that are configured otherwise by now.
func (c *clients) reconcile(desired []config.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.all {
		for _, o := range known.own {
			if !slices.ContainsFunc(desired, o.srv.Equal) {
				c.drop(known, o)
			}
		}
	}
}

// forEach calls f for each open session of a client, in the background.
func (c *clients) forEach(of *serve.Client, f func(ctx context.Context, o *own)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.all[of]
	if known == nil || c.ctx.Err() != nil {
		return
	}
	for _, o := range known.own {
		c.wg.Go(func() {
			ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
			defer cancel()
			select {
			case <-o.ready:
			case <-ctx.Done():
				return
			}
			if ok, _ := o.usable(); ok {
				f(ctx, o)
			}
		})
	}
}

// setLevel answers logging/setLevel: the level holds for the client's own sessions, which
// it gets from then on.
func (c *clients) setLevel(r *serve.Request) (json.RawMessage, error) {
	params := fields(r.Params)
	if !isString(params["level"]) {
		return nil, &serve.Error{Code: mcp.CodeInvalidParams, Message: `"level" must be a string`}
	}
	c.mu.Lock()
	known := c.all[r.Client]
	if known == nil {
		known = c.add(r.Client)
	}
	known.level = params
	c.mu.Unlock()
	c.forEach(r.Client, func(ctx context.Context, o *own) {
		_, _ = o.s.Do(ctx, session.Request{Method: mcp.MethodSetLevel, Params: params}) // it may have no logging
	})
	return json.RawMessage("{}"), nil
}
