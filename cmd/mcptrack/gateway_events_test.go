//go:build linux

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The official TypeScript client lists, polls and streams the events of a gateway in both
// eras; poll and stream name an event alike.
func TestGatewayEventsTypeScript(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Node")
	}
	t.Parallel()
	url := startGateway(t, "--config", twoDemos(t), "--events", "--data-dir", t.TempDir(), "--durability", "os")
	for _, era := range []string{"auto", "legacy"} {
		out := string(peerScript(t, "events_client.mjs", url, era))
		var streamed, polled []string
		for line := range strings.Lines(out) {
			what, doc, _ := strings.Cut(line, " ")
			var v struct {
				EventID, Cursor string
				Truncated       bool
				Data            struct{ Server, URI string }
				Events          []struct{ EventID, Name string }
				Extensions      map[string]any
			}
			_ = json.Unmarshal([]byte(doc), &v)
			switch what {
			case "capabilities":
				if v.Extensions["io.modelcontextprotocol/events"] == nil {
					t.Errorf("%s: %s", era, line)
				}
			case "list":
				if len(v.Events) != 3 || v.Events[1].Name != "resource.updated" {
					t.Errorf("%s: %s", era, line)
				}
			case "poll":
				if len(v.Events) != 0 || v.Cursor == "" || v.Truncated {
					t.Errorf("%s: %s", era, line)
				}
			case "notifications/events/event":
				streamed = append(streamed, v.EventID)
				if !strings.HasPrefix(v.Data.URI, "mcptrack://server/"+v.Data.Server+"/") || v.Cursor != v.EventID {
					t.Errorf("%s: %s", era, line)
				}
			case "again":
				for _, e := range v.Events {
					polled = append(polled, e.EventID)
				}
			}
		}
		if len(streamed) < 2 || !slices.Equal(streamed[:2], polled) || !strings.Contains(out, "notifications/events/active") {
			t.Errorf("%s: streamed %v, polled %v\n%s", era, streamed, polled, out)
		}
	}
}
