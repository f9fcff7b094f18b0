package gateway

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"sync"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/output/web"
)

// clients serves each client of the config through a gateway of its own, so that nothing of what one sees depends on
// another. All gateways share one tracker and one log. Requests of other clients go to the gateway for everything.
type clients struct {
	create func(name string) (*view, error)
	whole  *view
	tokens *web.Tokens // nil with --stdio, where there are no clients
	logger *slog.Logger

	running sync.WaitGroup // counts what run has started; ctx is not nil when one is added

	mu     sync.Mutex
	ctx    context.Context // of run; nil before and after it
	byName map[string]*view
}

// apply sets the clients and servers of a config. exported are the servers for everything.
func (c *clients) apply(cfg, exported *config.Config) {
	if c.tokens == nil {
		return
	}
	c.mu.Lock()
	left := maps.Clone(c.byName)
	for _, of := range cfg.Clients {
		v := c.byName[of.Name]
		delete(left, of.Name)
		if len(of.Missing) > 0 {
			c.logger.Warn("a client is refused because its configuration is incomplete", "client", of.Name, "missing", of.Missing)
		}
		if v == nil {
			var err error
			if v, err = c.create(of.Name); err != nil {
				c.logger.Warn("a client is refused", "client", of.Name, "err", err)
				continue
			}
			c.byName[of.Name] = v
			c.startLocked(v)
		}
		v.gw.Apply(exported.Only(func(srv config.Server) bool { return of.Sees(srv.ID) }))
		if err := v.gw.Filter(of.Allow, of.Deny); err != nil {
			panic(err) // the globs of a config are valid
		}
	}
	for name, v := range left {
		delete(c.byName, name)
		if c.ctx == nil {
			v.end()
		} else {
			c.running.Go(v.end)
		}
	}
	c.mu.Unlock()
	c.tokens.SetClients(tokensOf(cfg)) // without c.mu, because it calls events
}

// tokensOf returns the clients of a config with their tokens. Those that lack something have none.
func tokensOf(cfg *config.Config) []web.Client {
	all := make([]web.Client, len(cfg.Clients))
	for i, of := range cfg.Clients {
		if all[i].Name = of.Name; len(of.Missing) == 0 {
			all[i].Token = of.Token.Reveal()
		}
	}
	return all
}

// startLocked runs a view, if run runs.
func (c *clients) startLocked(v *view) {
	if c.ctx == nil {
		return
	}
	var ctx context.Context
	ctx, v.cancel = context.WithCancel(c.ctx)
	c.running.Go(func() { _ = v.run(ctx) }) // until ctx ends
	if v.reader != nil {
		c.running.Go(func() { _ = v.read(ctx) }) // likewise
	}
}

// run runs the views of the clients until ctx ends.
func (c *clients) run(ctx context.Context) error {
	c.mu.Lock()
	c.ctx = ctx
	for _, v := range c.byName {
		c.startLocked(v)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.mu.Lock()
	c.ctx = nil
	c.mu.Unlock()
	c.running.Wait()
	return nil
}

// views returns the views of the clients, by name.
func (c *clients) views() map[string]*view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byName)
}

// view returns the view of a client, or nil if there is none.
func (c *clients) view(name string) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byName[name]
}

// close closes all connections of clients. It does not stop run.
func (c *clients) close() {
	c.whole.gw.Close()
	for _, v := range c.views() {
		v.gw.Close()
	}
}

// of returns the view of whoever has a token with a name, or nil if it is not known yet what it sees.
func (c *clients) of(name string) *view {
	if v := c.view(name); v != nil || c.tokens.IsClient(name) {
		return v
	}
	return c.whole
}

func (c *clients) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := c.whole
	if name := c.tokens.Client(r); name != "" {
		v = c.view(name)
	}
	if v == nil {
		http.Error(w, "the config has no such client, or it cannot be served", http.StatusForbidden)
		return
	}
	v.gw.Server().ServeHTTP(w, r)
}
