package dashboard

import (
	"context"
	"net/http"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
)

// maxListed is the number of items in a response after which no further server is added.
const maxListed = 20_000

// listed is an item without its descriptor.
type listed struct {
	Key  string `json:"key"`            // see [catalog.Kind.KeyField]
	Name string `json:"name,omitempty"` // name, or title if the name is the key
	Gone bool   `json:"gone,omitempty"`
}

// offered is the response of /api/items.
type offered struct {
	// Servers has what each server offers, without empty lists. Of resources it has those that are followed.
	Servers map[string]map[catalog.Kind][]listed `json:"servers"`
	More    int                                  `json:"more,omitempty"` // number of omitted servers
}

// items returns what the servers in the parameters server, or all servers, offer.
func (d *Dashboard) items(r *http.Request) (any, error) {
	out, n := offered{Servers: map[string]map[catalog.Kind][]listed{}}, 0
	wanted := map[string]bool{}
	for _, id := range r.URL.Query()["server"] {
		wanted[id] = true
	}
	for _, s := range d.opts.Servers() {
		if len(wanted) > 0 && !wanted[s.ID] {
			continue
		}
		if n >= maxListed {
			out.More++
			continue
		}
		lists, err := d.lists(r.Context(), s.ID)
		if err != nil {
			return nil, err
		}
		for _, list := range lists {
			n += len(list)
		}
		out.Servers[s.ID] = lists
	}
	return out, nil
}

// lists returns what a server offers. If another process follows the server, names are unknown.
func (d *Dashboard) lists(ctx context.Context, id string) (map[catalog.Kind][]listed, error) {
	followed, err := d.followed(ctx, id)
	if err != nil {
		return nil, err
	}
	out := map[catalog.Kind][]listed{}
	for _, res := range followed {
		out[catalog.Resources] = append(out[catalog.Resources], listed{res.URI, res.Name, res.Gone})
	}
	st, here := d.opts.Snapshot().Server(id)
	known := journal.States{}
	if !here {
		if known, err = d.events.States(ctx, id); err != nil {
			return nil, err
		}
	}
	for _, kind := range catalog.Kinds()[1:] { // after the resources
		list := st.Lists[kind]
		if !here {
			list = known.Lists[journal.ListName{ServerID: id, Kind: kind}]
		}
		for _, it := range list {
			described := it.Describe()
			name := described.Name
			if name == it.Key {
				name = described.Title
			}
			out[kind] = append(out[kind], listed{Key: it.Key, Name: name})
		}
	}
	return out, nil
}
