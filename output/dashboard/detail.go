package dashboard

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/status"
)

const (
	// maxItems and maxItemBytes limit the descriptors of each list in a response.
	maxItems     = 500
	maxItemBytes = 1 << 20
	maxMissing   = 100 // polled resources in a response
)

// serverDetail is the answer of /api/servers/{id}.
type serverDetail struct {
	status.Summary
	// Polled are URIs of resources whose updates the server does not push, at most 100.
	Polled []string `json:"polled,omitempty"`
	// ToolList and so on are descriptors as the server sent them.
	ToolList     []json.RawMessage `json:"toolList"`
	PromptList   []json.RawMessage `json:"promptList"`
	TemplateList []json.RawMessage `json:"templateList"`
}

func (d *Dashboard) server(w http.ResponseWriter, r *http.Request) {
	servers := d.opts.Servers()
	i := slices.IndexFunc(servers, func(s status.Summary) bool { return s.ID == r.PathValue("id") })
	if i < 0 {
		refuse(w, http.StatusNotFound, "no such server")
		return
	}
	// Another process may follow the server: its descriptors are not known here then.
	st, _ := d.opts.Snapshot().Server(servers[i].ID)
	answer(w, serverDetail{
		Summary: servers[i], Polled: st.Missing[:min(len(st.Missing), maxMissing)],
		ToolList: items(st.Lists[catalog.Tools]), PromptList: items(st.Lists[catalog.Prompts]), TemplateList: items(st.Lists[catalog.Templates]),
	})
}

// serverLog is the answer of /api/servers/{id}/log.
type serverLog struct {
	Lines []logLine `json:"lines"` // oldest first
	// FollowedBy is the process that has the lines if another process follows the server.
	FollowedBy string `json:"followedBy,omitempty"`
}

// logLine is a [serverlog.Line].
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
	out := serverLog{Lines: []logLine{}}
	if _, here := d.opts.Snapshot().Server(id); !here {
		out.FollowedBy = d.process(id)
	} else if d.opts.Log != nil {
		for _, l := range d.opts.Log(id) {
			out.Lines = append(out.Lines, logLine{stamp(l.Time), l.Level, l.Text})
		}
	}
	answer(w, out)
}

// items returns the first descriptors of a list, within the limits.
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
