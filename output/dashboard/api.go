package dashboard

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// overview is the answer of /api/status.
type overview struct {
	Version   string `json:"version"`
	StartedAt string `json:"startedAt"`
	// Epoch and Seq make the id (epoch-seq) from which a client resumes after this
	// answer: it may get events again that the answer contains, and misses none.
	Epoch     string              `json:"epoch,omitempty"`
	Seq       uint64              `json:"seq"`
	Servers   int                 `json:"servers"`
	States    map[event.State]int `json:"states"`
	Resources int                 `json:"resources"`
	Updates   uint64              `json:"updates"`
	Failures  uint64              `json:"failures"`
	Clients   int                 `json:"clients"`
	Login     bool                `json:"login,omitempty"`   // POST /logout ends a login
	History   bool                `json:"history,omitempty"` // /api/history and /api/activity answer
	// Webhooks are at most maxWebhooks, those that fail first; MoreWebhooks is how many were
	// left out.
	Webhooks     []webhook.EndpointStatus `json:"webhooks,omitempty"`
	MoreWebhooks int                      `json:"moreWebhooks,omitempty"`
	// Deliveries say which process on a cluster sends to webhooks.
	Deliveries []webhook.Deliverer `json:"webhookDeliveries,omitempty"`
	// Unstored is why events cannot be stored; "": they can.
	Unstored string `json:"unstored,omitempty"`
	*cluster
}

const maxWebhooks = 200

// cluster is the part of the status that is about the processes that share servers.
type cluster struct {
	Process    string   `json:"process"`
	Processes  int      `json:"processes"`
	Unfollowed []string `json:"unfollowed,omitempty"` // servers that no process follows
	Waiting    string   `json:"waiting,omitempty"`    // why this process cannot acquire leases; "": it can
}

// resource is one element of /api/servers/{id}/resources.
type resource struct {
	URI      string `json:"uri"`
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Size     int64  `json:"size"`
	Digest   string `json:"digest,omitempty"`
	Gone     bool   `json:"gone,omitempty"`
	Changed  string `json:"changed,omitempty"` // time of the last event about the resource; "": none is known
}

// content is the answer of /api/servers/{id}/content.
type content struct {
	resource
	// Text is missing if the content is binary or too large, or cannot be read.
	Text *string `json:"text,omitempty"`
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(event.TimeFormat)
}

func newResource(st *status.Server, r *status.Resource) resource {
	out := resource{URI: r.URI, MimeType: r.MimeType, Size: r.Size, Digest: r.Digest.String(), Gone: r.Gone}
	if it, ok := st.Lists[catalog.Resources].Get(r.URI); ok {
		d := it.Describe()
		out.Name = d.Name
		if out.MimeType == "" {
			out.MimeType = d.MimeType
		}
	}
	if r.Last != nil {
		out.Changed = stamp(r.Last.Timestamp)
	}
	return out
}

func (d *Dashboard) status(w http.ResponseWriter, r *http.Request) {
	out := overview{Version: d.opts.Version, StartedAt: stamp(d.started), States: map[event.State]int{}, Login: d.opts.Login, History: d.opts.Select != nil}
	if d.opts.Last != nil {
		out.Epoch, out.Seq = d.opts.Last() // before the snapshot, which then includes it
	}
	if d.opts.Storing != nil {
		if err := d.opts.Storing(); err != nil {
			out.Unstored = printable.Reason(err, 500)
		}
	}
	servers := d.opts.Servers()
	out.Servers = len(servers)
	for _, srv := range servers {
		out.States[srv.State]++
		out.Resources += srv.Resources
		out.Updates += srv.Updates
		out.Failures += srv.Failures
	}
	if d.opts.Cluster != nil {
		if c, ok := d.opts.Cluster(); ok {
			out.cluster = &cluster{c.Process, c.Processes, c.Unfollowed, c.Waiting}
		}
	}
	if d.opts.Deliveries != nil {
		out.Deliveries = d.opts.Deliveries()
	}
	if d.opts.Webhooks != nil {
		all := d.opts.Webhooks(r)
		slices.SortStableFunc(all, func(a, b webhook.EndpointStatus) int {
			return cmp.Compare(slices.Index([]webhook.DeliveryState{webhook.Suspended, webhook.Failing, webhook.Active}, a.State),
				slices.Index([]webhook.DeliveryState{webhook.Suspended, webhook.Failing, webhook.Active}, b.State))
		})
		out.Webhooks = all[:min(len(all), maxWebhooks)]
		out.MoreWebhooks = len(all) - len(out.Webhooks)
	}
	if d.opts.Clients != nil {
		out.Clients = d.opts.Clients()
	}
	answer(w, out)
}

func (d *Dashboard) servers(w http.ResponseWriter, _ *http.Request) {
	answer(w, append([]status.Summary{}, d.opts.Servers()...))
}

func (d *Dashboard) resources(w http.ResponseWriter, r *http.Request) {
	st, ok := d.opts.Snapshot().Server(r.PathValue("id"))
	if !ok {
		d.elsewhere(w, r, func(all []resource) { answer(w, all) })
		return
	}
	out := make([]resource, 0, len(st.Resources))
	for i := range st.Resources {
		out = append(out, newResource(&st, &st.Resources[i]))
	}
	answer(w, out)
}

// answer writes v as the JSON body of a response, with hidden characters escaped.
func answer(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the response cannot be encoded")
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(printable.JSON(body), '\n'))
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	body, _ := json.Marshal(map[string]string{"error": message})
	_, _ = w.Write(append(body, '\n'))
}
