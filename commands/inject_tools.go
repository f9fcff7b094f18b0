package commands

import (
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/realtime"
)

// serverURL returns the URL of a tracked server, "" without one.
func (o *injectOptions) serverURL(id string) string {
	if cfg := o.config.Load(); cfg != nil {
		if srv, ok := cfg.Server(id); ok {
			return srv.URL.Reveal()
		}
	}
	return ""
}

// checkMCP checks that the servers of --mcp are ones that the endpoint can connect to, and
// whose tools are tracked.
func (o *injectOptions) checkMCP(cfg *config.Config) error {
	selected := o.selection().of(cfg)
	for _, id := range o.mcp {
		name := printable.Line(id, 128)
		srv, ok := cfg.Server(id)
		if !ok {
			return usage("--mcp: there is no server %q in %s", name, printable.Line(cfg.Path, 200))
		}
		if tracked, ok := selected.Server(id); !ok || !tracked.TrackTools {
			return usageHint("set \"trackTools\": true in the entry of the server, or use --all", "--mcp: the tools of server %q are not tracked", name)
		}
		if srv.Transport != config.TransportHTTP && srv.Transport != config.TransportSSE {
			return usage("--mcp: server %q is a program on this machine, which the endpoint cannot connect to; it takes servers with a URL", name)
		}
	}
	return nil
}

// mcpServers returns how a session gets the current servers of --mcp; nil without any.
func (o *injectOptions) mcpServers() func() []realtime.MCPServer {
	if len(o.mcp) == 0 {
		return nil
	}
	return func() []realtime.MCPServer {
		var servers []realtime.MCPServer
		cfg := o.config.Load()
		for _, id := range o.mcp {
			srv, ok := cfg.Server(id)
			if !ok || srv.Unusable() != nil || srv.URL.IsZero() {
				continue // it has left the config
			}
			m := realtime.MCPServer{ID: id, URL: srv.URL.Reveal(), Header: map[string]string{}}
			for name, value := range srv.Headers {
				m.Header[name] = value.Reveal()
			}
			servers = append(servers, m)
		}
		return servers
	}
}
