package realtime

import (
	"encoding/json"
	"fmt"
	"slices"
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

// importer is an endpoint that imports the tools of MCP servers as the API does: it sends an item for
// each entry, and then the outcome.
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
	sent := []string{u.Session.Type}
	for _, tool := range u.Session.Tools {
		sent = append(sent, fmt.Sprintf("%s:%s=%s%v,%s", tool.Type, tool.Label, tool.URL, tool.Headers, tool.Approval))
	}
	im.updates = append(im.updates, strings.Join(sent, " "))
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

func (im *importer) sent() string {
	im.mu.Lock()
	defer im.mu.Unlock()
	return strings.Join(im.updates, "\n")
}

// A session that we open imports the tools of the servers at the beginning, after each change, and
// over the next connection. A server whose tools cannot be imported is reported, and does not delay
// the others.
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
		if im.sent() != first {
			t.Errorf("at the beginning:\n%s\nwant\n%s", im.sent(), first)
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
		if im.sent() != second {
			t.Errorf("after a change:\n%s\nwant\n%s", im.sent(), second)
		}
		_ = conn.CloseNow()
		time.Sleep(time.Minute)
		if want := second + "\nrealtime mcp:docs=https://new.example/mcpmap[],never"; im.sent() != want {
			t.Errorf("after another connection:\n%s\nwant\n%s", im.sent(), want)
		}
		r.Offer(update(1, "file:///a", time.Now()))
		time.Sleep(time.Second)
		if len(r.injected()) != 1 || len(r.failed()) != 1 {
			t.Errorf("%d receipts, failures %+v", len(r.injected()), r.failed())
		}
	})
}

// An error about the update is reported for all its servers.
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
