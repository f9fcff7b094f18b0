package realtime

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// toolImports updates the tools that a session has imported from MCP servers. The API imports tools
// once, when an entry of type "mcp" is added to the session's tools; its behaviour for an existing
// entry is undocumented. Therefore the application's tools are first sent again unchanged. If no
// import follows, they are sent without the entries of the changed servers, and then with them. If
// that fails too, the model receives a message. In a session that this program opens, the tools are
// sent first.
//
// The zero value is ready to use. The owner's lock must be held.
type toolImports struct {
	kind  json.RawMessage         // session type that the application sent
	tools []toolEntry             // tools that the application last sent; nil if unknown
	due   map[string]*event.Event // servers for the next update, in the same form as asked
	stage importStage
	// asked contains, by label, the servers whose tools the current update imports, with the events
	// that announced the changes. The event is nil at the start of a session.
	asked  map[string]*event.Event
	first  bool                    // the current update is the first in a session that this program opened
	failed map[string]*event.Event // servers whose failed import was not reported yet, in the same form as asked
	why    string                  // text of the last error
	labels map[string]string       // server labels of imports, by item ID
	id     string                  // ID of our last session.update
	until  time.Time               // deadline for the import that id requested
	count  int
}

// toolEntry is one entry of a session's tools.
type toolEntry struct {
	raw                    json.RawMessage
	serverLabel, serverURL string // set for entries of type "mcp"
}

type importStage int

const (
	idle    importStage = iota
	same                // the tools were sent again unchanged
	removed             // the tools were sent without the entries of the changed servers
	added               // the tools were sent with those entries again
)

const importTimeout = 15 * time.Second

// updateEventPrefix is the prefix for the IDs of our session.update events.
const updateEventPrefix = "evu_mt_"

// sent records the tools in a session.update from the application. If the update is too large to
// inspect, the tools become unknown.
func (t *toolImports) sent(b []byte, whole bool) {
	if eventType(b) != "session.update" {
		return
	}
	var in struct {
		Session struct {
			Type  json.RawMessage   `json:"type"`
			Tools []json.RawMessage `json:"tools"`
		} `json:"session"`
	}
	if !whole || json.Unmarshal(b, &in) != nil {
		t.tools = nil
		return
	}
	if in.Session.Type != nil {
		t.kind = in.Session.Type
	}
	if in.Session.Tools == nil {
		return // the update does not change the tools
	}
	t.tools = nil
	for _, raw := range in.Session.Tools {
		var entry struct {
			Type        string `json:"type"`
			ServerLabel string `json:"server_label"`
			ServerURL   string `json:"server_url"`
		}
		e := toolEntry{raw: raw}
		if json.Unmarshal(raw, &entry) == nil && entry.Type == "mcp" {
			e.serverLabel, e.serverURL = entry.ServerLabel, entry.ServerURL
		}
		t.tools = append(t.tools, e)
	}
}

// changed records that a server's tools have changed, and reports whether the session uses the
// server. url may be empty.
func (t *toolImports) changed(e *event.Event, url string) (used bool) {
	for _, entry := range t.tools {
		if entry.serverLabel != "" && (entry.serverLabel == e.ServerID || url != "" && entry.serverURL == url) {
			if t.due == nil {
				t.due = map[string]*event.Event{}
			}
			t.due[entry.serverLabel] = e
			used = true
		}
	}
	return used
}

// step returns the session.update to send, or otherwise how long to wait; 0 means until something
// changes. free means that no response is active. failed contains, by label, the servers whose
// tools could not be imported, with the events that announced the changes.
func (t *toolImports) step(now time.Time, free bool) (frame []byte, wait time.Duration, failed map[string]*event.Event) {
	if t.stage != idle && t.id != "" {
		if wait = t.until.Sub(now); wait > 0 {
			return nil, wait, nil
		}
		t.next()
	}
	defer func() { failed, t.failed = t.failed, nil }()
	if t.stage == idle && len(t.asked) > 0 {
		t.failed, t.asked, t.first = t.asked, nil, false
	}
	if !free || t.stage == idle && len(t.due) == 0 {
		return nil, 0, nil
	}
	if t.stage == idle {
		t.stage, t.asked, t.due, t.why = same, t.due, nil, ""
	}
	return t.update(now), 0, nil
}

// next advances to the next stage, whose update step will send. After the last stage it gives up.
func (t *toolImports) next() {
	t.id = ""
	if t.stage++; t.stage > added || t.first {
		t.stage = idle
	}
}

// imported records that the tools of the server with this label were imported. An empty label means
// that the server is unknown; the tools of all servers then count as imported.
func (t *toolImports) imported(label string) {
	if t.stage == removed {
		return
	}
	if delete(t.asked, label); label == "" || len(t.asked) == 0 {
		t.stage, t.id, t.asked, t.first = idle, "", nil, false
	}
}

// maxLabels limits how many labels of imports are remembered.
const maxLabels = 64

func (t *toolImports) update(now time.Time) []byte {
	tools := []json.RawMessage{}
	for _, e := range t.tools {
		if _, changed := t.asked[e.serverLabel]; !changed || t.stage != removed {
			tools = append(tools, e.raw)
		}
	}
	kind := t.kind
	if kind == nil {
		kind = json.RawMessage(`"realtime"`)
	}
	t.count++
	t.id, t.until = fmt.Sprintf("%s%d_%d", updateEventPrefix, now.UnixMilli(), t.count), now.Add(importTimeout)
	frame, _ := encode(map[string]any{ // encoding valid JSON cannot fail
		"type": "session.update", "event_id": t.id, "session": map[string]any{"type": kind, "tools": tools},
	})
	return frame
}

// observe processes a server event that may concern our update.
func (t *toolImports) observe(e serverEvent) {
	if e.Item.Type == "mcp_list_tools" && e.Item.ServerLabel != "" {
		if t.labels == nil || len(t.labels) >= maxLabels {
			t.labels = map[string]string{}
		}
		t.labels[e.Item.ID] = e.Item.ServerLabel
	}
	if t.id == "" {
		return
	}
	label := t.labels[e.ItemID]
	_, asked := t.asked[label]
	switch {
	case e.Type == "mcp_list_tools.completed":
		t.imported(label)
	case e.Type == "mcp_list_tools.failed" && t.first && asked && len(t.asked) > 1:
		t.failed = map[string]*event.Event{label: nil}
		delete(t.asked, label)
	case e.Type == "session.updated" && t.stage == removed,
		e.Type == "mcp_list_tools.failed" && t.stage != removed && (asked || label == ""):
		t.next()
	case e.Type == "error" && e.Error.EventID == t.id:
		t.why = e.reason()
		t.next()
	}
}

// newToolsMessage returns the message that tells the model that a server's tools have changed and
// could not be reimported.
func newToolsMessage(e *event.Event, scope string) Message {
	m := Message{EventID: e.ID, ServerID: e.ServerID, Timestamp: e.Timestamp.UTC(), Received: e.Received}
	m.ItemID = eventItemID(scope, &m)
	m.Parts = []Part{{Type: "input_text", Text: "The tools of MCP server " + safe(e.ServerID, 256) + " changed at " +
		e.Timestamp.UTC().Format(event.TimeFormat) + "; the tools of this session may be out of date"}}
	return m
}

// MCPServer specifies an MCP server whose tools are imported into a session that this program
// opens.
type MCPServer struct {
	ID     string            // label of the server in the session
	URL    string            // URL at which the endpoint connects to the server
	Header map[string]string // headers that the endpoint sends with every request, such as Authorization
}

// mcpTool is an entry of type "mcp" in the tools of a session that this program opens. Tool calls
// need no approval, because there is no user to approve them.
type mcpTool struct {
	Type            string            `json:"type"`
	ServerLabel     string            `json:"server_label"`
	ServerURL       string            `json:"server_url"`
	Headers         map[string]string `json:"headers,omitempty"`
	RequireApproval string            `json:"require_approval"`
}

// use replaces the session's tools with the tools of servers. If begins is set, it schedules their
// import, with a single attempt.
func (t *toolImports) use(servers []MCPServer, begins bool) {
	t.tools = nil
	for _, s := range servers {
		raw, err := encode(mcpTool{"mcp", s.ID, s.URL, s.Header, "never"})
		if err == nil { // encoding strings cannot fail
			t.tools = append(t.tools, toolEntry{raw: raw, serverLabel: s.ID, serverURL: s.URL})
		}
	}
	if !begins {
		return
	}
	t.stage, t.id, t.asked, t.first = idle, "", nil, true
	t.due = map[string]*event.Event{}
	for _, e := range t.tools {
		t.due[e.serverLabel] = nil
	}
	clear(t.labels)
}

// reason returns why an import failed.
func (t *toolImports) reason() string {
	return cmp.Or(t.why, "the endpoint could not import the tools")
}
