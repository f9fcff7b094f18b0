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

// Webhooks of a config get what happens, signed; an edit of the config applies at once,
// and after a kill -9 they go on.
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
		save(t, file, fmt.Sprintf(`{"mcpServers": {"demo": %s}, "webhooks": [%s]}`, demoEntry(t, t.Name(), `, "trackResources": true`), hook))
	}
	write(fmt.Sprintf(`{"url": "%s/one", "secret": %q, "allowPrivate": true, "types": ["resource.updated"]}`, to.URL, webhookSecret))
	args := []string{"--config", file, "--data-dir", data, "--durability", "os"}
	s := serveBeside(t, args...)
	await("/one", 2, `"name":"resource.updated"`)
	out, err := mcptrackCommand(t.Context(), "status", s.url).Output()
	if err != nil || !strings.Contains(string(out), strings.TrimPrefix(to.URL, "http://")) || !strings.Contains(string(out), "standard") || strings.Contains(string(out), "/one") {
		t.Errorf("%v\n%s", err, out)
	}
	write(fmt.Sprintf(`{"url": "%s/two", "format": "slack", "allowPrivate": true}`, to.URL))
	await("/two", 1, " changed")
	s.stop(syscall.SIGKILL)
	before := count("/two")
	serveBeside(t, args...)
	await("/two", before+1, "demo")
}
