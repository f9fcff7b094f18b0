package gateway

import (
	"context"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway/upstream"
	"github.com/mcptrack/mcptrack/core/printable"
)

// api is a configured HTTP catalog, which is served like a server with tools only.
type api struct {
	srv config.Server
	up  *upstream.Upstream
}

func (g *Gateway) api(id string) *api {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.apis[id]
}

// wanted returns the servers to export.
func (g *Gateway) wanted() []config.Server {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.desired
}

// reconcileAPIs starts and stops HTTP catalogs to match the config. One whose entry
// does not change is not interrupted.
func (l *loop) reconcileAPIs(desired []config.Server) {
	g := l.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, a := range g.apis {
		if !slices.ContainsFunc(desired, a.srv.Equal) {
			delete(g.apis, id)
			l.tasks.Go(a.up.Close)
		}
	}
	for _, srv := range desired {
		if srv.Transport != config.TransportCatalog || g.apis[srv.ID] != nil || l.ctx.Err() != nil || srv.Unusable() != nil || slices.ContainsFunc(l.broken, srv.Equal) {
			continue
		}
		log := g.opts.Logger.With("server", printable.Line(srv.ID, 128))
		opts := upstream.FromConfig(srv)
		opts.Self = upstream.Version{Version: g.opts.Serve.Version}
		opts.Logger = log
		opts.OnChange = func(*upstream.Catalog, catalog.Delta) { g.kick() }
		opts.OnStatus = func(upstream.Status) { g.kick() }
		opts.OnSkip = func(skips []upstream.Skip, total int) {
			for _, s := range skips {
				log.Warn("the gateway does not list an entry of the API catalog", "list", string(catalog.Tools), "item", s.Name, "reason", s.Reason)
			}
			if total > len(skips) {
				log.Warn("the gateway does not list more entries of the API catalog", "number", total-len(skips))
			}
		}
		up, err := upstream.New(opts)
		if err != nil {
			log.Warn("the tools of the API catalog are not served", "err", err)
			l.broken = append(l.broken, srv)
			continue
		}
		g.apis[srv.ID] = &api{srv, up}
		l.tasks.Go(func() { _ = up.Run(context.WithoutCancel(l.ctx)) }) // until it is closed
	}
}

func (l *loop) stopAPIs() {
	l.g.mu.Lock()
	apis := l.g.apis
	l.g.apis = map[string]*api{}
	l.g.mu.Unlock()
	for _, a := range apis {
		l.tasks.Go(a.up.Close)
	}
}
