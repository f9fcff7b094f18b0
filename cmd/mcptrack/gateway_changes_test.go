//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
)

// Unmodified clients from npm find the tools, learn what changed, wait, give up waiting and
// go on, with and without MCP Events beside them, over HTTP and standard streams.
func TestGatewayChangeTools(t *testing.T) {
	t.Parallel()
	installedPeer(t, "..", "..", "testdata", "peers", "node_modules", "@ai-sdk", "mcp")
	config := twoDemos(t)
	url := startGateway(t, "--config", config, "--change-tools", "--events", "--data-dir", t.TempDir(), "--durability", "os")
	over := map[string][]string{"HTTP": {url}, "standard streams": {mcptrackPath(t), "gateway", "--stdio", "--config", config, "--change-tools"}}
	var running sync.WaitGroup
	for transport, target := range over {
		for _, client := range []string{"ts", "ai"} {
			running.Go(func() {
				out := string(peerScript(t, "change_tools.mjs", append([]string{client}, target...)...))
				seen := map[string]string{}
				for line := range strings.Lines(out) {
					what, doc, _ := strings.Cut(line, " ")
					seen[what] = doc
				}
				for what, want := range map[string]string{"tools": `"wait_for_changes"`, "since": `"text":"`, "waited": `"kind":"resource"`, "again": `"uri":"mcptrack://server/a/vault://`} {
					if !strings.Contains(seen[what], want) {
						t.Errorf("%s over %s: no %s in %s: %s", client, transport, want, what, seen[what])
					}
				}
				if strings.Contains(seen["again"], `"server":"b"`) {
					t.Errorf("%s over %s: changes of another server: %s", client, transport, seen["again"])
				}
				if client != "ts" {
					return
				}
				if seen["cancelled"] == "" || !strings.Contains(seen["instructions"], "changes_since") {
					t.Errorf("over %s: %s", transport, out)
				}
				if transport == "HTTP" {
					return
				}
				var ended struct {
					Changes []any
					Cursor  string
				}
				if err := json.Unmarshal([]byte(seen["over"]), &ended); err != nil || len(ended.Changes) > 0 || ended.Cursor == "" || !strings.Contains(seen["progress"], `"total":5500`) {
					t.Errorf("%v: %s %s", err, seen["over"], seen["progress"])
				}
			})
		}
	}
	running.Wait()
}
