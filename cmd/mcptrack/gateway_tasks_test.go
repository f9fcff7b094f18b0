//go:build linux

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A task belongs to the token with which it began, also after a restart of the gateway and under
// a new token of the same name. To other tokens it looks like one that does not exist.
func TestGatewayTaskOwners(t *testing.T) {
	t.Parallel()
	server := sessiontest.New()
	server.Legacy, server.Modern = false, true
	server.SetList("tools", map[string]any{"name": "slow", "inputSchema": map[string]any{"type": "object"}})
	server.Capabilities["extensions"] = json.RawMessage(`{"io.modelcontextprotocol/tasks":{}}`)
	for method, result := range map[string]string{
		"tools/call": `{"resultType":"task","taskId":"t1","status":"working"}`, "tasks/get": `{"taskId":"t1","status":"working"}`, "tasks/cancel": `{}`,
	} {
		server.Fail(sessiontest.Fault{Method: method, Result: json.RawMessage(result)})
	}
	upstream := httptest.NewServer(server)
	defer upstream.Close()
	dir := t.TempDir()
	conf, tokens, data := filepath.Join(dir, "mcp-servers.json"), filepath.Join(dir, "tokens"), filepath.Join(dir, "data")
	save(t, conf, config(`"docs": {"type": "http", "url": "`+upstream.URL+`", "trackResources": true}`))
	const alice, bob, next = "alice-0123456789abcdef", "bob-0123456789abcdefgh", "next-0123456789abcdefg"
	send := func(url, token, method, name, params string) string {
		t.Helper()
		const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,`+meta+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + token},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {name}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	var id string
	task := func(url, token, method string) string {
		t.Helper()
		return send(url, token, method, id, `"taskId":"`+id+`"`)
	}
	run := func(what, secrets string, check func(t *testing.T, url string)) {
		t.Helper()
		if err := os.WriteFile(tokens, []byte(secrets), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(what, func(t *testing.T) {
			check(t, startGateway(t, "--config", conf, "--token-file", tokens, "--change-tools", "--data-dir", data, "--durability", "os"))
		})
	}
	run("begin", "alice "+alice+"\nbob "+bob+"\n", func(t *testing.T, url string) {
		var begun struct{ Result struct{ TaskID string } }
		raw := send(url, alice, "tools/call", "slow", `"name":"slow","arguments":{}`)
		if err := json.Unmarshal([]byte(raw), &begun); err != nil || begun.Result.TaskID == "" {
			t.Fatalf("%v: %s", err, raw)
		}
		id = begun.Result.TaskID
	})
	run("restart", "alice "+alice+"\nalice "+next+"\nbob "+bob+"\n", func(t *testing.T, url string) {
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			if got := task(url, bob, method); !strings.Contains(got, "Task not found") || server.Count(method) > 0 {
				t.Errorf("bob: %s: %s", method, got)
			}
		}
		for _, token := range []string{alice, next} {
			if got := task(url, token, "tasks/get"); !strings.Contains(got, `"taskId":"`+id+`"`) {
				t.Errorf("alice: %s", got)
			}
		}
	})
	if info, err := os.Stat(filepath.Join(data, "gateway.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
