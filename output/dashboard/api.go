package dashboard

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// status is the answer of /api/status.
type status struct {
	Version   string `json:"version"`
	StartedAt string `json:"startedAt"`
	// Epoch and Seq make the id (epoch-seq) from which a client goes on that has
	// what is told here: it may see again what it has, and misses nothing.
	Epoch     string              `json:"epoch,omitempty"`
	Seq       uint64              `json:"seq"`
	Servers   int                 `json:"servers"`
	States    map[event.State]int `json:"states"`
	Resources int                 `json:"resources"`
	Updates   uint64              `json:"updates"`
	Failures  uint64              `json:"failures"`
	Clients   int                 `json:"clients"`
}

// server is one element of /api/servers.
type server struct {
	ID              string      `json:"id"`
	Transport       string      `json:"transport"`
	State           event.State `json:"state"`
	Since           string      `json:"since,omitempty"`
	Reason          string      `json:"reason,omitempty"`
	Error           string      `json:"error,omitempty"`
	Attempt         int         `json:"attempt,omitempty"`
	NextRetry       string      `json:"nextRetry,omitempty"`
	Era             string      `json:"era,omitempty"`
	ProtocolVersion string      `json:"protocolVersion,omitempty"`
	ServerName      string      `json:"serverName,omitempty"`
	ServerVersion   string      `json:"serverVersion,omitempty"`
	Mode            event.Mode  `json:"mode,omitempty"`
	Resources       int         `json:"resources"`
	Missing         int         `json:"missing"`
	Templates       int         `json:"templates"`
	Prompts         int         `json:"prompts"`
	Tools           int         `json:"tools"`
	Signals         uint64      `json:"signals"`
	Updates         uint64      `json:"updates"`
	Failures        uint64      `json:"failures"`
}

// resource is one element of /api/servers/{id}/resources.
type resource struct {
	URI      string `json:"uri"`
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Size     int64  `json:"size"`
	Digest   string `json:"digest,omitempty"`
	Gone     bool   `json:"gone,omitempty"`
	Changed  string `json:"changed,omitempty"` // when it was told last
}

// content is the answer of /api/servers/{id}/content.
type content struct {
	resource
	// Text is missing where the content is binary, large or not known yet.
	Text *string `json:"text,omitempty"`
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(event.TimeFormat)
}

func newServer(st *tracker.ServerStatus) server {
	transport := st.Info.Transport
	if transport == "" {
		transport = st.Transport
	}
	return server{
		ID: st.ID, Transport: string(transport), State: st.State, Since: stamp(st.Since), Reason: st.Reason, Error: st.Error,
		Attempt: st.Attempt, NextRetry: stamp(st.NextRetry), Era: string(st.Info.Era), ProtocolVersion: st.Info.ProtocolVersion,
		ServerName: st.Info.ServerName, ServerVersion: st.Info.ServerVersion, Mode: st.Mode,
		Resources: len(st.Resources), Missing: len(st.Missing), Templates: len(st.Lists[catalog.Templates]),
		Prompts: len(st.Lists[catalog.Prompts]), Tools: len(st.Lists[catalog.Tools]),
		Signals: st.Counts.Signals, Updates: st.Counts.Told, Failures: st.Counts.Failures,
	}
}

func newResource(st *tracker.ServerStatus, r *tracker.ResourceStatus) resource {
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

func (d *Dashboard) status(w http.ResponseWriter, _ *http.Request) {
	out := status{Version: d.opts.Version, StartedAt: stamp(d.started), States: map[event.State]int{}}
	if d.opts.Last != nil {
		out.Epoch, out.Seq = d.opts.Last() // before the snapshot, which then has all up to there
	}
	snap := d.opts.Snapshot()
	out.Servers = len(snap.Servers)
	for i := range snap.Servers {
		st := &snap.Servers[i]
		out.States[st.State]++
		out.Resources += len(st.Resources)
		out.Updates += st.Counts.Told
		out.Failures += st.Counts.Failures
	}
	if d.opts.Clients != nil {
		out.Clients = d.opts.Clients()
	}
	answer(w, out)
}

func (d *Dashboard) servers(w http.ResponseWriter, _ *http.Request) {
	snap := d.opts.Snapshot()
	out := make([]server, 0, len(snap.Servers))
	for i := range snap.Servers {
		out = append(out, newServer(&snap.Servers[i]))
	}
	answer(w, out)
}

func (d *Dashboard) resources(w http.ResponseWriter, r *http.Request) {
	st, ok := d.opts.Snapshot().Server(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, "no such server")
		return
	}
	out := make([]resource, 0, len(st.Resources))
	for i := range st.Resources {
		out = append(out, newResource(&st, &st.Resources[i]))
	}
	answer(w, out)
}

func (d *Dashboard) content(w http.ResponseWriter, r *http.Request) {
	st, ok := d.opts.Snapshot().Server(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, "no such server")
		return
	}
	uri := r.URL.Query().Get("uri")
	for i := range st.Resources {
		if st.Resources[i].URI == uri {
			answer(w, content{newResource(&st, &st.Resources[i]), st.Resources[i].Text})
			return
		}
	}
	refuse(w, http.StatusNotFound, "no such resource is followed")
}

// answer writes a value as JSON in which nothing is hidden.
func answer(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "cannot be encoded")
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
