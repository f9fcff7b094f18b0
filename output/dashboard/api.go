package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sort"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/markdown"
	"github.com/mcptrack/mcptrack/output/serverlog"
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
	Words     map[string]string     `json:"words"`
	Tones     map[string]event.Tone `json:"tones"` // of states
	Resources int                   `json:"resources"`
	Tools     int                   `json:"tools"`
	Updates   uint64                `json:"updates"`
	Failures  uint64                `json:"failures"`
	Clients   int                   `json:"clients"`
	Login     bool                  `json:"login,omitempty"`   // POST /logout ends a login
	History   bool                  `json:"history,omitempty"` // /api/history and /api/activity are available
	Calls     bool                  `json:"calls,omitempty"`   // /api/calls is available
	Actions   bool                  `json:"actions,omitempty"` // tools can be called, and servers restarted
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

func (d *Dashboard) status(r *http.Request) (any, error) {
	out := overview{Version: d.opts.Version, StartedAt: stamp(d.started), States: map[event.State]int{}, Login: d.opts.Login, History: d.opts.Last != nil, Calls: d.opts.Calls != nil, Actions: d.opts.Actions != nil}
	out.Words, out.Tones = words()
	if d.opts.Last != nil {
		out.Epoch, out.Seq = d.opts.Last() // read before the snapshot, so that the snapshot includes the event with this id
	}
	if err := d.events.Err(); err != nil {
		out.Unstored = printable.Reason(err, 500)
	}
	servers := d.opts.Servers()
	out.Servers = len(servers)
	for _, srv := range servers {
		out.States[srv.State]++
		out.Resources += srv.Resources
		out.Tools += srv.Tools
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
		all, order := d.opts.Webhooks(r), []webhook.DeliveryState{webhook.Suspended, webhook.Failing, webhook.Active}
		sort.SliceStable(all, func(i, j int) bool {
			return slices.Index(order, all[i].State) < slices.Index(order, all[j].State)
		})
		out.Webhooks = all[:min(len(all), maxWebhooks)]
		out.MoreWebhooks = len(all) - len(out.Webhooks)
	}
	if d.opts.Clients != nil {
		out.Clients = d.opts.Clients()
	}
	return out, nil
}

// resend makes webhooks send events again.
func (d *Dashboard) resend(r *http.Request) (any, error) {
	var q webhook.Again
	dec := json.NewDecoder(io.LimitReader(r.Body, maxDecision))
	dec.DisallowUnknownFields()
	if dec.Decode(&q) != nil || dec.More() {
		return nil, &refusal{http.StatusBadRequest, `expected {"webhooks":["HOST"],"eventId":"ID"} or {"since":"TIME"}`}
	}
	all, err := d.opts.Resend(r.Context(), q)
	if err != nil {
		return nil, &refusal{http.StatusConflict, err.Error()}
	}
	d.opts.Logger.Info("webhooks send events again", "webhooks", len(all))
	return all, nil
}

// hookBody serves the body of the message whose hook.received event has the id in the parameter event,
// byte for byte.
func (d *Dashboard) hookBody(w http.ResponseWriter, r *http.Request) {
	e := d.stored(r.Context(), r.URL.Query().Get("event"))
	received, _ := e.Payload.(event.HookReceived)
	text, ok := "", received.HookID != "" && received.HookID == r.PathValue("id")
	if ok {
		text, ok = d.version(r.Context(), received.Digest.String())
	}
	if !ok {
		refuse(w, missing("the body of this message is not available"))
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, text)
}

// stored returns the event with an id, which comes from a client, or no event if the log does not have it.
func (d *Dashboard) stored(ctx context.Context, id string) (e event.Event) {
	if _, seq, err := event.ParseID(id); err == nil && seq > 0 {
		for entry, err := range d.events.Read(ctx, seq) {
			if err == nil && entry.Gap == nil && entry.ID == id {
				e, _ = entry.Event() // without a payload if it is not an event
			}
			break
		}
	}
	return e
}

// words returns the words of all states of a tracked server, and of all causes, and the tones of the states. A key
// has the reason of a state, too, if the server is connected on demand.
func words() (all map[string]string, tones map[string]event.Tone) {
	all, tones = map[string]string{}, map[string]event.Tone{}
	for _, s := range event.States() {
		all[string(s)], tones[string(s)] = s.Said("")
	}
	for s, reason := range map[event.State]string{event.Pending: event.Asleep, event.Connecting: event.Waking} {
		key := string(s) + " " + reason
		all[key], tones[key] = s.Said(reason)
	}
	for _, c := range []event.Cause{event.CauseNotify, event.CauseTrailing, event.CauseResync, event.CausePoll, event.CauseEvent, event.CauseHook} {
		all[string(c)] = c.Words()
	}
	return all, tones
}

func (d *Dashboard) servers(*http.Request) (any, error) {
	return append([]status.Summary{}, d.opts.Servers()...), nil
}

// known returns a server, also if another process follows it.
func (d *Dashboard) known(id string) (status.Summary, error) {
	for _, s := range d.opts.Servers() {
		if s.ID == id {
			return s, nil
		}
	}
	return status.Summary{}, missing("no such server")
}

// follower returns the name of the process that follows a server.
func follower(s status.Summary) string { return cmp.Or(s.FollowedBy, "no process at present") }

func (d *Dashboard) resources(r *http.Request) (any, error) {
	return d.followed(r.Context(), r.PathValue("id"))
}

// followed returns the followed resources of a server, sorted by URI; if another process follows the server,
// as they are stored.
func (d *Dashboard) followed(ctx context.Context, id string) ([]resource, error) {
	out := []resource{}
	if st, here := d.opts.Snapshot().Server(id); here {
		for i := range st.Resources {
			out = append(out, newResource(&st, &st.Resources[i]))
		}
		return out, nil
	}
	if _, err := d.known(id); err != nil {
		return nil, err
	}
	states, err := d.events.States(ctx, id)
	if err != nil {
		return nil, &refusal{http.StatusServiceUnavailable, "the stored state of the server cannot be read"}
	}
	for at, st := range states.Resources {
		res := resource{ServerID: id, URI: at.URI, MimeType: st.MimeType, Size: st.Size, Changed: stamp(st.When)}
		switch st.Digest {
		case catalog.Gone():
			res.Gone = true
		case catalog.Unread(): // its digest is not known
		default:
			res.Digest = st.Digest.String()
		}
		out = append(out, res)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].URI < out[j].URI })
	return out, nil
}

const (
	// maxItems and maxItemBytes limit the item descriptors per list in a response.
	maxItems     = 500
	maxItemBytes = 1 << 20
	maxMissing   = 100 // polled resources in a response
)

// Running is what a process knows about a server that it follows, beside its status.
type Running struct {
	// Start is the command or the address in the config, in one line and without secrets.
	Start  string `json:"start,omitempty"`
	PID    int    `json:"pid,omitempty"`
	Memory int64  `json:"memoryBytes,omitempty"` // of the process and its descendants
	Fix    string `json:"fix,omitempty"`         // what to do if the server has an error
}

// serverDetail is the response of /api/servers/{id}.
type serverDetail struct {
	status.Summary
	Running
	// Polled has the URIs of resources that the server does not push, at most 100.
	Polled []string `json:"polled,omitempty"`
	// ToolList and the other lists have descriptors as the server sent them.
	ToolList     []json.RawMessage `json:"toolList"`
	PromptList   []json.RawMessage `json:"promptList"`
	TemplateList []json.RawMessage `json:"templateList"`
	SkillList    []json.RawMessage `json:"skillList"`
}

func (d *Dashboard) server(r *http.Request) (any, error) {
	known, err := d.known(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	// If another process follows the server, this process does not have its descriptors.
	st, here := d.opts.Snapshot().Server(known.ID)
	var running Running
	if here && d.opts.Running != nil {
		running = d.opts.Running(r.Context(), &st)
	}
	return serverDetail{
		Summary: known, Running: running, Polled: st.Missing[:min(len(st.Missing), maxMissing)],
		ToolList: descriptors(st.Lists[catalog.Tools]), PromptList: descriptors(st.Lists[catalog.Prompts]), TemplateList: descriptors(st.Lists[catalog.Templates]), SkillList: descriptors(st.Lists[catalog.Skills]),
	}, nil
}

// serverLog is the response of /api/servers/{id}/log.
type serverLog struct {
	ServerID string           `json:"serverId"`
	Lines    []serverlog.Line `json:"lines"` // oldest first
	// FollowedBy is the process that has the log lines, if another process follows the server.
	FollowedBy string `json:"followedBy,omitempty"`
}

func (d *Dashboard) log(r *http.Request) (any, error) {
	known, err := d.known(r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	out := serverLog{ServerID: known.ID, Lines: []serverlog.Line{}}
	if _, here := d.opts.Snapshot().Server(known.ID); !here {
		out.FollowedBy = follower(known)
	} else if d.opts.Log != nil {
		out.Lines = append(out.Lines, d.opts.Log(known.ID)...)
	}
	return out, nil
}

// descriptors returns the first descriptors of a list, up to the limits.
func descriptors(list catalog.List) []json.RawMessage {
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
