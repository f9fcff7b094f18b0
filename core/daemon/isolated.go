package daemon

import "github.com/mcptrack/mcptrack/core/mcp"

// isolate remembers the servers of the view that declare that clients must not share them; see [mcp.Isolated].
func (v *View) isolate() {
	snap := v.d.opts.Engine.Tracker().Snapshot()
	v.d.mu.Lock()
	var found []string
	for _, srv := range v.servers {
		if st, _ := snap.Server(srv.ID); mcp.Isolated(st.Info.RawCapabilities) && !srv.Unshared() && !v.d.opts.OneEach.Has(&srv) {
			found = append(found, srv.ID)
		}
	}
	v.d.mu.Unlock()
	for _, id := range found {
		v.d.needsOneEach(id, "it declares so (x-mux)")
	}
}
