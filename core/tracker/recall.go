package tracker

import (
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
)

// rememberHandshake stores what the server said of itself, for [Tracker.Recall].
func (w *worker) rememberHandshake(info session.Info) {
	if !w.opts.OnDemand {
		return
	}
	info.PID = 0
	raw, err := json.Marshal(info)
	if err != nil {
		return // the server's capabilities are not JSON
	}
	digest, err := catalog.Fingerprint(raw)
	if err != nil {
		return // nested too deeply
	}
	list := catalog.List{{Key: string(journal.Handshake), Raw: raw, Digest: digest}}
	w.t.store.rememberList(w.id, journal.Handshake, list)
}

// Recall sets what an earlier tracker knew of a server when it was last connected: the definition of its
// [journal.Handshake], and its lists. A server that is connected on demand begins with them. It does
// nothing once the server was applied.
func (t *Tracker) Recall(server string, handshake json.RawMessage, lists map[catalog.Kind]catalog.List) {
	var said struct {
		session.Info
		Capabilities json.RawMessage // in the server's form
	}
	if !t.opts.OnDemand || json.Unmarshal(handshake, &said) != nil || said.Era == "" {
		return
	}
	said.Info.Capabilities = mcp.ParseCapabilities(said.RawCapabilities)
	t.store.update(server, func(r *record) {
		if r.applied {
			return
		}
		r.status.Info = said.Info
		for k, list := range lists {
			if said.Info.Capabilities.Has(k) {
				r.lists[k] = list
			}
		}
	})
}
