package dashboard

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/markdown"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// overview is the response of /api/status.
type overview struct {
	Version   string `json:"version"`
	StartedAt string `json:"startedAt"`
	// Epoch and Seq form the event id (epoch-seq) after which a client can resume the feed. The
	// client may receive events that this response already reflects, but misses none.
	Epoch   string              `json:"epoch,omitempty"`
	Seq     uint64              `json:"seq"`
	Servers int                 `json:"servers"`
	States  map[event.State]int `json:"states"`
	// Words has the words for people of every state of a server and of every cause of a version.
	Words     map[string]string `json:"words"`
	Resources int               `json:"resources"`
	Updates   uint64            `json:"updates"`
	Failures  uint64            `json:"failures"`
	Clients   int               `json:"clients"`
	Login     bool              `json:"login,omitempty"`   // POST /logout ends a login
	History   bool              `json:"history,omitempty"` // /api/history and /api/activity are available
	Calls     bool              `json:"calls,omitempty"`   // /api/calls is available
	// Webhooks has at most maxWebhooks endpoints, failing ones first. MoreWebhooks is the number of
	// omitted endpoints.
	Webhooks     []webhook.EndpointStatus `json:"webhooks,omitempty"`
	MoreWebhooks int                      `json:"moreWebhooks,omitempty"`
	// Hooks has the incoming webhooks.
	Hooks []hook.Status `json:"hooks,omitempty"`
	// Deliveries reports which process of a cluster delivers webhooks.
	Deliveries []webhook.Deliverer `json:"webhookDeliveries,omitempty"`
	// Undecided is the number of changes that the user has neither approved nor rejected; absent if there
	// is no lock file.
	Undecided *int `json:"undecided,omitempty"`
	// Unstored is the reason why events cannot be stored; empty if they can.
	Unstored string `json:"unstored,omitempty"`
	*cluster
}

const maxWebhooks = 200

// cluster describes the processes that share servers.
type cluster struct {
	Process    string   `json:"process"`
	Processes  int      `json:"processes"`
	Unfollowed []string `json:"unfollowed,omitempty"` // servers that no process follows
	Waiting    string   `json:"waiting,omitempty"`    // why this process cannot acquire leases; empty if it can
}

// resource is one element of /api/servers/{id}/resources.
type resource struct {
	ServerID string `json:"serverId"`
	URI      string `json:"uri"`
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Size     int64  `json:"size"`
	Digest   string `json:"digest,omitempty"`
	Gone     bool   `json:"gone,omitempty"`
	Changed  string `json:"changed,omitempty"` // time of the last event about the resource; empty if unknown
}

// content is the response of /api/servers/{id}/content.
type content struct {
	resource
	// Text is omitted if the content is binary, too large or unreadable.
	Text *string `json:"text,omitempty"`
	// Rendered has the elements of a Markdown text, if the request asks for them.
	Rendered []markdown.Node `json:"rendered,omitempty"`
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(event.TimeFormat)
}

func newResource(st *status.ServerStatus, r *status.ResourceStatus) resource {
	out := resource{ServerID: st.ID, URI: r.URI, MimeType: r.MimeType, Size: r.Size, Digest: r.Digest.String(), Gone: r.Gone}
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
	out := overview{Version: d.opts.Version, StartedAt: stamp(d.started), States: map[event.State]int{}, Words: words(), Login: d.opts.Login, History: d.opts.Select != nil, Calls: d.opts.Calls != nil}
	if d.opts.Last != nil {
		out.Epoch, out.Seq = d.opts.Last() // read before the snapshot, so that the snapshot includes the event with this id
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
	out.Undecided = d.opts.Review.undecided()
	if d.opts.Cluster != nil {
		if c, ok := d.opts.Cluster(); ok {
			out.cluster = &cluster{c.Process, c.Processes, c.Unfollowed, c.Waiting}
		}
	}
	if d.opts.Deliveries != nil {
		out.Deliveries = d.opts.Deliveries()
	}
	if d.opts.Hooks != nil {
		out.Hooks = d.opts.Hooks(r)
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

// hookBody serves the body of the message whose hook.received event has the id in the parameter event,
// byte for byte.
func (d *Dashboard) hookBody(w http.ResponseWriter, r *http.Request) {
	var received event.HookReceived
	if d.opts.Event != nil {
		e, _ := d.opts.Event(r.Context(), r.URL.Query().Get("event"))
		received, _ = e.Payload.(event.HookReceived)
	}
	text, ok := "", received.HookID != "" && received.HookID == r.PathValue("id")
	if ok {
		text, ok = d.version(r.Context(), received.Digest.String())
	}
	if !ok {
		refuse(w, http.StatusNotFound, "the body of this message is not available")
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, text)
}

// words returns the words of all states of a tracked server, and of all causes.
func words() map[string]string {
	all := map[string]string{}
	for _, s := range event.States() {
		all[string(s)] = s.Words()
	}
	for _, c := range []event.Cause{event.CauseNotify, event.CauseTrailing, event.CauseResync, event.CausePoll, event.CauseEvent, event.CauseHook} {
		all[string(c)] = c.Words()
	}
	return all
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

const (
	// maxItems and maxItemBytes limit the item descriptors per list in a response.
	maxItems     = 500
	maxItemBytes = 1 << 20
	maxMissing   = 100 // polled resources in a response
)

// serverDetail is the response of /api/servers/{id}.
type serverDetail struct {
	status.Summary
	// Polled has the URIs of resources that the server does not push, at most 100.
	Polled []string `json:"polled,omitempty"`
	// ToolList and the other lists have descriptors as the server sent them.
	ToolList     []json.RawMessage `json:"toolList"`
	PromptList   []json.RawMessage `json:"promptList"`
	TemplateList []json.RawMessage `json:"templateList"`
	SkillList    []json.RawMessage `json:"skillList"`
}

func (d *Dashboard) server(w http.ResponseWriter, r *http.Request) {
	servers := d.opts.Servers()
	i := slices.IndexFunc(servers, func(s status.Summary) bool { return s.ID == r.PathValue("id") })
	if i < 0 {
		refuse(w, http.StatusNotFound, "no such server")
		return
	}
	// If another process follows the server, this process does not have its descriptors.
	st, _ := d.opts.Snapshot().Server(servers[i].ID)
	answer(w, serverDetail{
		Summary: servers[i], Polled: st.Missing[:min(len(st.Missing), maxMissing)],
		ToolList: items(st.Lists[catalog.Tools]), PromptList: items(st.Lists[catalog.Prompts]), TemplateList: items(st.Lists[catalog.Templates]), SkillList: items(st.Lists[catalog.Skills]),
	})
}

// serverLog is the response of /api/servers/{id}/log.
type serverLog struct {
	ServerID string    `json:"serverId"`
	Lines    []logLine `json:"lines"` // oldest first
	// FollowedBy is the process that has the log lines, if another process follows the server.
	FollowedBy string `json:"followedBy,omitempty"`
}

// logLine is the JSON form of a [serverlog.Line].
type logLine struct {
	Timestamp string `json:"timestamp"`
	Level     string `json:"level"`
	Text      string `json:"text"`
}

func (d *Dashboard) log(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !slices.ContainsFunc(d.opts.Servers(), func(s status.Summary) bool { return s.ID == id }) {
		refuse(w, http.StatusNotFound, "no such server")
		return
	}
	out := serverLog{ServerID: id, Lines: []logLine{}}
	if _, here := d.opts.Snapshot().Server(id); !here {
		out.FollowedBy = d.process(id)
	} else if d.opts.Log != nil {
		for _, l := range d.opts.Log(id) {
			out.Lines = append(out.Lines, logLine{stamp(l.Time), l.Level, l.Text})
		}
	}
	answer(w, out)
}

// items returns the first descriptors of a list, up to the limits.
func items(list catalog.List) []json.RawMessage {
	out := []json.RawMessage{}
	size := 0
	for _, it := range list {
		if size += len(it.Raw); len(out) == maxItems || size > maxItemBytes {
			break
		}
		out = append(out, it.Raw)
	}
	return out
}
