package gateway

import (
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
)

// Offered returns the listed items by server, for an index of them.
func (g *Gateway) Offered() capindex.View {
	v := g.view.Load()
	snap := g.tracker.Snapshot()
	var out capindex.View
	for _, id := range slices.Sorted(maps.Keys(v.servers)) {
		st, _ := snap.Server(id)
		s := capindex.Server{ID: id, State: string(st.State), Name: st.Info.ServerName, Version: st.Info.ServerVersion}
		s.Lists = make(map[catalog.Kind]catalog.List, len(v.offered[id]))
		for k, list := range v.offered[id] {
			s.Lists[k] = catalog.NewList(slices.Clone(list)) // by key, as an index expects
		}
		if a := g.api(id); a != nil {
			s.Name, s.Version, s.State = "", a.up.Catalog().Build, string(event.Backoff)
			if a.up.Status().Up {
				s.State = string(event.Ready)
			}
		}
		for _, r := range st.Resources {
			t := target{id, r.URI}
			if _, isUpdate := payload(r.Last).(event.ResourceUpdated); isUpdate && v.filter.admits(catalog.Resources, t, v.export(t)) {
				s.Updates = append(s.Updates, capindex.Update{URI: v.export(t), Time: r.Last.Timestamp})
			}
		}
		out.Servers = append(out.Servers, s)
	}
	return out
}

func payload(e *event.Event) event.Payload {
	if e == nil {
		return nil
	}
	return e.Payload
}
