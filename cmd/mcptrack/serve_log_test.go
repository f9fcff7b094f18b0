//go:build linux

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServeLog: what a server writes to stderr is served, without the secrets of the config.
func TestServeLog(t *testing.T) {
	t.Parallel()
	const key = "k3y-0f-the-config-77"
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, `{"mcpServers": {"chatty": {"command": "sh", "args": ["-c", "echo the key is $API_KEY >&2; exec cat >&2"], "env": {"API_KEY": "`+key+`"}, "trackResources": true}}}`)
	s := serveBeside(t, "--config", file, "--data-dir", t.TempDir())
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		body, code := ask(t, s.url+"/api/servers/chatty/log", nil)
		if strings.Contains(body, key) {
			t.Fatalf("a secret: %s", body)
		}
		if code == http.StatusOK && strings.Contains(body, `"level":"stderr","text":"the key is `) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d %s", code, body)
		}
	}
}
