package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/status"
)

// Offer is what one server offers: an element of the response of /api/offers.
type Offer struct {
	status.Summary
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	// Offered contains the lists that were requested and that the server supports, with the items as
	// it sent them. A list is absent if it could not be loaded.
	Offered map[catalog.Kind][]json.RawMessage `json:"offered"`
}

// maxOffers limits how long a request waits for servers to connect; the tracker's limit for one
// connection is shorter.
const maxOffers = 2 * time.Minute

// offers serves what servers offer, in the order of their ids: those of the parameters server, or
// all, with the lists of the parameters kind, or all. It wakes servers that have not been connected
// yet and waits until each has connected or failed once. It answers for a server that is asleep from
// its last session.
func (a *API) offers(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	kinds := catalog.Kinds()
	if asked := query["kind"]; len(asked) > 0 {
		kinds = slices.DeleteFunc(kinds, func(k catalog.Kind) bool { return !slices.Contains(asked, string(k)) })
	}
	servers := a.named(r)
	if slices.ContainsFunc(servers, unknown) {
		ctx, cancel := context.WithTimeout(r.Context(), maxOffers)
		defer cancel()
		for _, st := range servers {
			if unknown(st) && a.opts.Demand != nil {
				defer a.opts.Demand(st.ID)()
			}
		}
		backoff.Poll(ctx, 20*time.Millisecond, func() bool {
			servers = a.named(r)
			return !slices.ContainsFunc(servers, unknown)
		})
	}
	out := make([]Offer, 0, len(servers))
	for i := range servers {
		out = append(out, offer(&servers[i], kinds))
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // items stay as the servers sent them
	if err := enc.Encode(out); err != nil {
		http.Error(w, "the response cannot be encoded", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = body.WriteTo(w)
}

// named returns the servers in the parameters server of a request, or all.
func (a *API) named(r *http.Request) (servers []status.ServerStatus) {
	ids := r.URL.Query()["server"]
	for _, st := range a.opts.Dashboard.Snapshot().Servers {
		if len(ids) == 0 || slices.Contains(ids, st.ID) {
			servers = append(servers, st)
		}
	}
	return servers
}

// unknown reports whether a server has not been tried yet, so that nothing is known about it.
func unknown(st status.ServerStatus) bool {
	return (st.State == event.Pending || st.State == event.Connecting) && st.Attempt == 0 && st.Info.ProtocolVersion == ""
}

func offer(st *status.ServerStatus, kinds []catalog.Kind) Offer {
	o := Offer{Summary: status.Summarize(st), Offered: map[catalog.Kind][]json.RawMessage{}}
	if json.Valid(st.Info.RawCapabilities) {
		o.Capabilities = st.Info.RawCapabilities
	}
	for _, k := range kinds {
		list, ok := st.Lists[k]
		if !ok && st.Info.Capabilities.Has(k) {
			continue
		}
		items := make([]json.RawMessage, len(list))
		for i, it := range list {
			items[i] = it.Raw
		}
		o.Offered[k] = items
	}
	return o
}
