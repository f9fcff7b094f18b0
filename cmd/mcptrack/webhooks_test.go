//go:build linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// Webhooks in the config get signed events. A config change applies immediately, and deliveries resume after
// a kill -9.
func TestServeWebhooks(t *testing.T) {
	t.Parallel()
	wh, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	bodies := map[string][]string{} // by path
	to := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if err := wh.Verify(body, q.Header); err != nil && q.URL.Path == "/one" {
			t.Errorf("%v: %s", err, body)
		}
		mu.Lock()
		defer mu.Unlock()
		bodies[q.URL.Path] = append(bodies[q.URL.Path], string(body))
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(to.Close) // after the program
	await := func(path string, n int, has string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			mu.Lock()
			got := 0
			for _, body := range bodies[path] {
				if strings.Contains(body, has) {
					got++
				}
			}
			mu.Unlock()
			if got >= n {
				return
			}
		}
		t.Fatalf("%q never came to %s: %v", has, path, bodies)
	}
	count := func(path string) int {
		mu.Lock()
		defer mu.Unlock()
		return len(bodies[path])
	}
	file, data := filepath.Join(t.TempDir(), "mcp-servers.json"), t.TempDir()
	write := func(hook string) {
		save(t, file, fmt.Sprintf(`{"mcpServers": {"demo": %s}, "webhooks": [%s]}`, demoEntry(t, markOf(t), `, "trackResources": true`), hook))
	}
	write(fmt.Sprintf(`{"url": "%s/one", "secret": %q, "allowPrivate": true, "types": ["resource.updated"]}`, to.URL, webhookSecret))
	args := []string{"--config", file, "--data-dir", data, "--durability", "interval"}
	s := serveBeside(t, args...)
	await("/one", 2, `"name":"resource.updated"`)
	out, err := mcptrackCommand(t.Context(), "status", s.url).Output()
	if err != nil || !strings.Contains(string(out), strings.TrimPrefix(to.URL, "http://")) || !strings.Contains(string(out), "standard") || strings.Contains(string(out), "/one") {
		t.Errorf("%v\n%s", err, out)
	}
	write(fmt.Sprintf(`{"url": "%s/two", "format": "slack", "allowPrivate": true}`, to.URL))
	await("/two", 1, "demo: updated ")
	s.stop(syscall.SIGKILL)
	before := count("/two")
	serveBeside(t, args...)
	await("/two", before+1, "demo")
}

// subscribeWebhook subscribes an endpoint at a gateway.
func subscribeWebhook(t *testing.T, gateway, token, to string) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"events/subscribe","params":{"name":"resource.updated","delivery":{"mode":"webhook","url":%q,"secret":%q},
"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, to, webhookSecret)
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "events/subscribe"} {
		q.Header.Set(name, value)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Body.Close() }()
	answer, _ := io.ReadAll(p.Body)
	if p.StatusCode != http.StatusOK || !strings.Contains(string(answer), `"refreshBefore"`) {
		t.Fatalf("%s: %s", p.Status, answer)
	}
}
