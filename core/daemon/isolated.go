package daemon

import "github.com/mcptrack/mcptrack/core/mcp"

// isolate remembers the servers of the group that declare that clients must not share them; see [mcp.Isolated].
func (g *Group) isolate() {
	snap := g.d.opts.Engine.Tracker().Snapshot()
	g.d.mu.Lock()
	var found []string
	for _, srv := range g.servers {
		if st, _ := snap.Server(srv.ID); mcp.Isolated(st.Info.RawCapabilities) && !srv.Unshared() && !g.d.opts.OneEach.Has(&srv) {
			found = append(found, srv.ID)
		}
	}
	g.d.mu.Unlock()
	for _, id := range found {
		g.d.needsOneEach(id, "it declares so (x-mux)")
	}
}
