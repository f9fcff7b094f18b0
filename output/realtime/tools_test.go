package realtime

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// When a server that a session uses changes its tools, they are imported again: by sending the
// application's tools again; if that imports nothing, without the entry and then with it; if that
// also fails, the model gets a message. The application sees no errors, and other servers have no
// effect.
func TestRefreshTools(t *testing.T) {
	for name, c := range map[string]struct {
		fail    int      // how many of our updates with all tools fail
		updates []string // the labels in each
		message bool
	}{
		"immediately":      {0, []string{"docs,other,f"}, false},
		"removed and back": {1, []string{"docs,other,f", "other,f", "docs,other,f"}, false},
		"never":            {2, []string{"docs,other,f", "other,f", "docs,other,f"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var updates []string
			failed := 0
			far := &realtimetest.Endpoint{Message: func(conn *realtimetest.Conn, _ websocket.MessageType, b []byte) {
				var u struct {
					Type, EventID string
					Session       struct {
						Type  string
						Tools []struct {
							Name  string
							Label string `json:"server_label"`
							Key   string `json:"authorization"`
						}
					}
				}
				_ = json.Unmarshal([]byte(strings.Replace(string(b), "event_id", "EventID", 1)), &u)
				if u.Type != "session.update" {
					return
				}
				var labels []string
				for _, tool := range u.Session.Tools {
					labels = append(labels, tool.Label+tool.Name)
					if tool.Label == "docs" && tool.Key != "secret" || u.Session.Type != "realtime" {
						t.Errorf("an update without the application's members: %s", b)
					}
				}
				if !strings.HasPrefix(u.EventID, updateEventPrefix) {
					conn.Say(map[string]any{"type": "session.updated"})
					return
				}
				mu.Lock()
				defer mu.Unlock()
				updates = append(updates, strings.Join(labels, ","))
				switch {
				case !slices.Contains(labels, "docs"):
					conn.Say(map[string]any{"type": "session.updated"})
				case failed < c.fail:
					failed++
					conn.Fail(u.EventID, "invalid_value", "no")
				default:
					conn.Say(map[string]any{"type": "session.updated"})
					conn.Say(map[string]any{"type": "mcp_list_tools.completed", "item_id": "mcpl_1"})
				}
			}}
			x := startProxy(t, far, func(o *ProxyOptions) {
				o.RefreshTools = true
				o.ServerURL = func(id string) string { return "https://" + id + ".example/mcp" }
			})
			app := x.connect("/?model=m", nil)
			defer func() { _ = app.CloseNow() }()
			ctx, cancel := x.bound()
			defer cancel()
			if err := app.Write(ctx, websocket.MessageText, []byte(`{"type":"session.update","session":{"type":"realtime","instructions":"i","tools":[`+
				`{"type":"mcp","server_label":"docs","server_url":"https://elsewhere.example","authorization":"secret"},`+
				`{"type":"mcp","server_label":"other","server_url":"https://third.example/mcp"},{"type":"function","name":"f"}]}}`)); err != nil {
				t.Fatal(err)
			}
			seen := func(typ string) {
				for {
					_, b, err := app.Read(ctx)
					if err != nil {
						t.Fatal(err)
					}
					if strings.Contains(string(b), updateEventPrefix) {
						t.Errorf("the application got %s", b)
					}
					if eventType(b) == typ {
						return
					}
				}
			}
			seen("session.updated")
			change := func(server string) {
				x.Offer(&event.Event{ID: event.FormatID("aa", 1), ServerID: server, Timestamp: time.Now(), Payload: event.ListChanged{List: catalog.Tools, Changed: []string{"f"}}})
			}
			change("unrelated")
			change("docs")
			if c.message {
				seen("conversation.item.added")
			} else {
				seen("mcp_list_tools.completed")
			}
			mu.Lock()
			if !slices.Equal(updates, c.updates) {
				t.Errorf("updates %q, want %q", updates, c.updates)
			}
			updates = nil
			mu.Unlock()
			if got := fmt.Sprint(texts(far.Items())); c.message != strings.Contains(got, "The tools of MCP server docs changed at ") {
				t.Errorf("messages %s", got)
			}
			if !c.message { // identified by its URL
				change("third")
				seen("mcp_list_tools.completed")
			}
		})
	}
}
