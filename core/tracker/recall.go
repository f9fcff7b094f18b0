package tracker

import (
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
)

// rememberHandshake stores what the server said of itself, for [Options.Recall].
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
	w.t.store.remember(func(rec journal.Recorder) error {
		return rec.RememberList(journal.ListName{ServerID: w.id, Kind: journal.Handshake}, list)
	})
}

// recall sets what an earlier tracker knew of a server that was not connected yet.
func (t *Tracker) recall(r *record) {
	if !t.opts.OnDemand || t.opts.Recall == nil || r.status.Info.Era != "" {
		return
	}
	var said struct {
		session.Info
		Capabilities json.RawMessage // in the server's form
	}
	handshake, lists := t.opts.Recall(r.status.ID)
	if json.Unmarshal(handshake, &said) != nil || said.Era == "" {
		return
	}
	r.status.Info = said.Info
	r.status.Info.Capabilities = mcp.ParseCapabilities(said.RawCapabilities)
	for k, list := range lists {
		if r.status.Info.Capabilities.Has(k) {
			r.lists[k] = list
		}
	}
}
