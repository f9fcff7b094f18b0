package realtime

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// importer is an endpoint that imports the tools of MCP servers as the API does: an item
// for each entry, and then its outcome.
type importer struct {
	bad string // the label of an entry whose import fails

	mu      sync.Mutex
	updates []string // the entries of each session.update
}

func (im *importer) message(c *realtimetest.Conn, _ websocket.MessageType, b []byte) {
	var u struct {
		Type, EventID string
		Session       struct {
			Type  string
			Tools []struct {
				Type     string
				Label    string `json:"server_label"`
				URL      string `json:"server_url"`
				Headers  map[string]string
				Approval string `json:"require_approval"`
			}
		}
	}
	if json.Unmarshal(b, &u) != nil || u.Type != "session.update" {
		return
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	said := []string{u.Session.Type}
	for _, tool := range u.Session.Tools {
		said = append(said, fmt.Sprintf("%s:%s=%s%v,%s", tool.Type, tool.Label, tool.URL, tool.Headers, tool.Approval))
	}
	im.updates = append(im.updates, strings.Join(said, " "))
	c.Say(map[string]any{"type": "session.updated"})
	for i, tool := range u.Session.Tools {
		id := fmt.Sprintf("mcpl_%d_%d", len(im.updates), i)
		c.Say(map[string]any{"type": "conversation.item.added", "item": map[string]any{"id": id, "type": "mcp_list_tools", "server_label": tool.Label}})
		outcome := "completed"
		if tool.Label == im.bad {
			outcome = "failed"
		}
		c.Say(map[string]any{"type": "mcp_list_tools." + outcome, "item_id": id})
	}
}

func (im *importer) said() string {
	im.mu.Lock()
	defer im.mu.Unlock()
	return strings.Join(im.updates, "\n")
}

// A session of our own has the tools of the servers from its beginning, after each of
// their changes with what is current then, and again over the next connection. A server
// whose tools cannot be imported is reported, and does not keep the others waiting.
func TestOwnTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		im := &importer{bad: "away"}
		var conn *realtimetest.Conn
		far := &realtimetest.Endpoint{Message: im.message, Greet: func(c *realtimetest.Conn) { conn = c }}
		var mu sync.Mutex
		servers := []MCPServer{{ID: "docs", URL: "https://docs.example/mcp", Header: map[string]string{"X-Key": "1"}}, {ID: "away", URL: "https://away.example/mcp"}}
		r := begin(t, far, func(o *SessionOptions) {
			o.MCP = func() []MCPServer { mu.Lock(); defer mu.Unlock(); return servers }
		})
		time.Sleep(time.Second)
		first := "realtime mcp:docs=https://docs.example/mcpmap[X-Key:1],never mcp:away=https://away.example/mcpmap[],never"
		if im.said() != first {
			t.Errorf("at the beginning:\n%s\nwant\n%s", im.said(), first)
		}
		if f := r.failed(); len(f) != 1 || f[0].ServerID != "away" || f[0].ResourceURI != "" {
			t.Errorf("failures %+v", f)
		}
		mu.Lock()
		servers = []MCPServer{{ID: "docs", URL: "https://new.example/mcp"}}
		mu.Unlock()
		change := func(server string) {
			r.Offer(&event.Event{ServerID: server, Timestamp: time.Now(), Payload: event.ListChanged{List: catalog.Tools}})
			time.Sleep(time.Second)
		}
		change("unrelated")
		change("docs")
		second := first + "\nrealtime mcp:docs=https://new.example/mcpmap[],never"
		if im.said() != second {
			t.Errorf("after a change:\n%s\nwant\n%s", im.said(), second)
		}
		_ = conn.CloseNow()
		time.Sleep(time.Minute)
		if want := second + "\nrealtime mcp:docs=https://new.example/mcpmap[],never"; im.said() != want {
			t.Errorf("after another connection:\n%s\nwant\n%s", im.said(), want)
		}
		r.Offer(update(1, "file:///a", time.Now()))
		time.Sleep(time.Second)
		if len(r.injected()) != 1 || len(r.failed()) != 1 {
			t.Errorf("%d receipts, failures %+v", len(r.injected()), r.failed())
		}
	})
}

// An error about the tools is what is reported about them, of all servers.
func TestOwnToolsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, _ websocket.MessageType, b []byte) {
			var u struct {
				ID string `json:"event_id"`
			}
			_ = json.Unmarshal(b, &u)
			c.Fail(u.ID, "invalid_value", "no such label")
		}}
		r := begin(t, far, func(o *SessionOptions) {
			o.MCP = func() []MCPServer { return []MCPServer{{ID: "a", URL: "https://a"}, {ID: "b", URL: "https://b"}} }
		})
		time.Sleep(time.Minute)
		f := r.failed()
		if len(f) != 2 || !strings.Contains(f[0].Reason, "no such label") || len(texts(far.Items())) != 0 {
			t.Errorf("failures %+v, messages %q", f, texts(far.Items()))
		}
	})
}
