package realtime

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// toolImports keeps current the tools that a session imported from MCP servers. The API
// imports them once, when it gets an entry of type "mcp" in the session's tools; how it
// treats an entry that it has already is not documented. So the application's tools are
// sent again, and if no import follows, once without the entries of the changed servers
// and once more with them. If that fails, too, the model gets a message.
//
// The zero value is ready. The owner's lock must be held.
type toolImports struct {
	kind  json.RawMessage // the type of the session, as the application gave it
	tools []toolEntry     // the application's last tools; nil: not known
	due   map[string]*event.Event
	stage importStage
	asked map[string]*event.Event // what the update in progress is about, by label
	id    string                  // of our last session.update
	until time.Time               // its deadline
	count int
}

// toolEntry is one entry of a session's tools.
type toolEntry struct {
	raw                    json.RawMessage
	serverLabel, serverURL string // of an entry of type "mcp"
}

type importStage int

const (
	idle    importStage = iota
	same                // the tools were sent again as they were
	removed             // without the entries of the changed servers
	added               // with them again
)

// importTimeout is how long an import may take.
const importTimeout = 15 * time.Second

// updateEventPrefix begins the ids of our session.update events.
const updateEventPrefix = "evu_mt_"

// sent records the tools in a session.update of the application. An update that is too
// large to be inspected makes them unknown.
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
		return // the tools stay as they are
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

// changed records that the tools of a server changed; url may be "". It reports whether
// the session uses the server.
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

// step returns the session.update to send, else how long to wait: 0 is until something
// happens. free says that no response is active. failed are events whose servers could
// not be imported again.
func (t *toolImports) step(now time.Time, free bool) (frame []byte, wait time.Duration, failed []*event.Event) {
	if t.stage != idle && t.id != "" {
		if wait = t.until.Sub(now); wait > 0 {
			return nil, wait, nil
		}
		t.next()
	}
	if t.stage == idle && len(t.asked) > 0 {
		failed = slices.Collect(maps.Values(t.asked))
		t.asked = nil
	}
	if !free || t.stage == idle && len(t.due) == 0 {
		return nil, 0, failed
	}
	if t.stage == idle {
		t.stage, t.asked, t.due = same, t.due, nil
	}
	return t.update(now), 0, failed
}

// next goes on to the next stage, to be sent by step; after the last one it gives up.
func (t *toolImports) next() {
	t.id = ""
	if t.stage++; t.stage > added {
		t.stage = idle
	}
}

// imported ends the update in progress.
func (t *toolImports) imported() {
	if t.stage == same || t.stage == added {
		t.stage, t.id, t.asked = idle, "", nil
	}
}

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
	frame, _ := encode(map[string]any{ // valid JSON always encodes
		"type": "session.update", "event_id": t.id, "session": map[string]any{"type": kind, "tools": tools},
	})
	return frame
}

// observe processes a server event that may be about an update of ours.
func (t *toolImports) observe(e serverEvent) {
	switch {
	case t.id == "":
	case e.Type == "mcp_list_tools.completed":
		t.imported()
	case e.Type == "session.updated" && t.stage == removed,
		e.Type == "mcp_list_tools.failed" && t.stage != removed,
		e.Type == "error" && e.Error.EventID == t.id:
		t.next()
	}
}

// toolsMessage returns the message that tells the model that the tools of a server changed
// and could not be imported again.
func toolsMessage(e *event.Event, scope string) Message {
	m := Message{EventID: e.ID, ServerID: e.ServerID, Timestamp: e.Timestamp.UTC(), Received: e.Received}
	m.ItemID = eventItemID(scope, &m)
	m.Parts = []Part{{Type: "input_text", Text: "The tools of MCP server " + safe(e.ServerID, 256) + " changed at " +
		e.Timestamp.UTC().Format(event.TimeFormat) + "; those of this session may be out of date"}}
	return m
}
