package realtime

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// toolImports updates the tools that a session has imported from MCP servers. The API imports tools
// once, when an entry of type "mcp" is added to the session's tools; its behaviour for an existing
// entry is undocumented. Therefore the application's tools are first sent again unchanged. If no
// import follows, they are sent without the entries of the changed servers, and then with them. If
// that fails too, the model receives a message.
//
// The zero value is ready to use. The owner's lock must be held.
type toolImports struct {
	kind  json.RawMessage // session type that the application sent
	tools []toolEntry     // tools that the application last sent; nil if unknown
	due   changes         // for the next update
	asked changes         // that the current update imports; nil if there is no update
	stage importStage     // of the current update
	id    string          // ID of our last session.update; empty if it is answered
	until time.Time       // deadline for the import that id requested
	count int
}

// changes contains, by the label of a server, the event that announced the change of its tools.
type changes map[string]*event.Event

// toolEntry is one entry of a session's tools.
type toolEntry struct {
	raw                    json.RawMessage
	serverLabel, serverURL string // set for entries of type "mcp"
}

type importStage int

const (
	same    importStage = iota // the tools are sent again unchanged
	removed                    // the tools are sent without the entries of the changed servers
	added                      // the tools are sent with those entries again
)

const importTimeout = 15 * time.Second

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

// changed records that a server's tools have changed, if the session uses the server. url may be empty.
func (t *toolImports) changed(e *event.Event, url string) {
	for _, entry := range t.tools {
		if entry.serverLabel != "" && (entry.serverLabel == e.ServerID || url != "" && entry.serverURL == url) {
			if t.due == nil {
				t.due = changes{}
			}
			t.due[entry.serverLabel] = e
		}
	}
}

// step returns the session.update to send, or otherwise how long to wait; 0 means until something
// changes. free means that no response is active. failed contains the changes that could not be imported.
func (t *toolImports) step(now time.Time, free bool) (frame []byte, wait time.Duration, failed changes) {
	if t.id != "" {
		if wait = t.until.Sub(now); wait > 0 {
			return nil, wait, nil
		}
		t.next()
	}
	if t.stage > added {
		failed, t.asked, t.stage = t.asked, nil, same
	}
	if t.asked == nil {
		t.asked, t.due = t.due, nil
	}
	if t.asked == nil || !free {
		return nil, 0, failed
	}
	return t.update(now), 0, failed
}

// next advances to the next stage, whose update step will send.
func (t *toolImports) next() { t.id, t.stage = "", t.stage+1 }

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

// observe processes a server event that may concern our update. Any import counts as the one that we asked for.
func (t *toolImports) observe(e serverEvent) {
	switch {
	case t.id == "":
	case e.Type == "mcp_list_tools.completed" && t.stage != removed:
		t.id, t.asked, t.stage = "", nil, same
	case e.Type == "session.updated" && t.stage == removed,
		e.Type == "mcp_list_tools.failed" && t.stage != removed,
		e.Type == "error" && e.Error.EventID == t.id:
		t.next()
	}
}

// newToolsMessage returns the message that tells the model that a server's tools have changed and
// could not be reimported.
func newToolsMessage(e *event.Event, scope string) Message {
	m := Message{EventID: e.ID, ServerID: e.ServerID, Timestamp: e.Timestamp.UTC(), Received: e.Received}
	m.ItemID = itemIDOf(scope, &m)
	m.Parts = []Part{{Type: "input_text", Text: "The tools of MCP server " + safe(e.ServerID, 256) + " changed at " +
		e.Timestamp.UTC().Format(event.TimeFormat) + "; the tools of this session may be out of date"}}
	return m
}
