//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The official TypeScript client lists, polls and streams the events of a gateway in both
// eras; poll and stream name an event alike.
func TestGatewayEventsTypeScript(t *testing.T) {
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

// The AI SDK subscribes by webhook, gets events before and after a refresh, which all
// name its subscription, and after one with another secret, signed with both, and unsubscribes.
func TestGatewayEventsAISDK(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdefghijklmnop"
	file, data := filepath.Join(t.TempDir(), "token"), t.TempDir()
	if err := os.WriteFile(file, []byte("chat "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := startGateway(t, "--config", twoDemos(t), "--events", "--data-dir", data, "--durability", "os", "--token-file", file, "--events-allow", "http://127.0.0.1:*")
	installedPeer(t, filepath.Join("..", "..", "testdata", "peers"), "node_modules", "@ai-sdk", "mcp")
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := nodeCommand(ctx, t, "ai_events.mjs", url)
	cmd.Env = append(os.Environ(), "TOKEN="+token)
	raw, err := cmd.CombinedOutput()
	out := string(raw)
	if err != nil || strings.Count(out, "\nanswered 204 event") < 2 || !strings.Contains(out, "subscribed sub_") || !strings.Contains(out, "\nunsubscribed") {
		t.Fatalf("%v\n%s", err, out)
	}
	before, rest, _ := strings.Cut(out, "\nrotating\n")
	_, after, rotated := strings.Cut(rest, "rotated\n")
	if strings.Contains(before, "answered 40") || regexp.MustCompile(`answered 40. \w+ 2`).MatchString(after) { // one of before, with one signature, may still come
		t.Errorf("the client refused a message\n%s", out)
	}
	if !rotated || strings.Contains(before, "event 2") || !strings.Contains(after, "answered 204 event 2") {
		t.Errorf("after another secret, messages are not signed with both\n%s", out)
	}
	s, code := ask(t, strings.TrimSuffix(url, "/mcp")+"/metrics", map[string]string{"Authorization": "Bearer " + token})
	if code != 200 || !strings.Contains(s, `mcptrack_webhook_attempts_total{outcome="taken",source="subscription"} `) || strings.Contains(s, `{outcome="taken",source="subscription"} 0`) {
		t.Errorf("%d", code)
	}
	if stored := storedWebhooks(t, data); strings.Contains(string(bytes.Join(stored, nil)), "whsec_") {
		t.Errorf("a subscription that ended is stored: %q", stored)
	}
}
