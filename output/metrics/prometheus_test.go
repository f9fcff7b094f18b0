package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/peertest"
	"github.com/mcptrack/mcptrack/core/status"
)

// The alerts do what alerts_test.yaml says.
func TestRealPromtool(t *testing.T) {
	t.Parallel()
	promtool := peertest.Program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// A real Prometheus reads the config, scrapes us without complaint, and fires for a server
// that changes between Connecting and Backoff, and when we are gone. Only the times of the
// alerts are shorter.
func TestRealPrometheus(t *testing.T) {
	t.Parallel()
	prometheus := peertest.Program(t, "prometheus")
	var scrapes atomic.Int64
	m := New(Options{Version: "1.2.3", Snapshot: func() *status.Snapshot {
		crashes := event.Backoff
		if scrapes.Add(1)%2 == 0 {
			crashes = event.Connecting
		}
		return &status.Snapshot{Servers: []status.ServerStatus{{ID: "crashes \"1\"", State: crashes}, {ID: "works", State: event.Ready}}}
	}})
	ours := httptest.NewServer(m.Handler())
	defer ours.Close()

	dir := t.TempDir()
	rules, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("alerts.yaml", strings.NewReplacer("for: 5m", "for: 1s", "for: 1m", "for: 1s").Replace(string(rules)))
	config := write("prometheus.yaml", fmt.Sprintf(`
global: {scrape_interval: 400ms, scrape_timeout: 400ms, evaluation_interval: 200ms}
rule_files: [alerts.yaml]
scrape_configs: [{job_name: tools, static_configs: [{targets: [%q]}]}]
`, strings.TrimPrefix(ours.URL, "http://")))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	await := func(what string, ok func(logged []byte) bool) {
		t.Helper()
		for {
			logged, err := os.ReadFile(log.Name())
			if err != nil {
				t.Fatal(err)
			}
			if ok(logged) {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("not within two minutes: %s, after %d scrapes\n%s", what, scrapes.Load(), logged)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	addr := ""
	await("it listens", func(logged []byte) bool {
		found := regexp.MustCompile(`msg="Listening on".* address=(\S+)`).FindSubmatch(logged)
		if found != nil {
			addr = string(found[1])
		}
		return found != nil
	})
	firing := func() map[string]bool {
		var answer struct {
			Data struct {
				Alerts []struct {
					State  string
					Labels map[string]string
				}
			}
		}
		out := map[string]bool{}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/api/v1/alerts", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return out // it does not listen yet
		}
		defer func() { _ = res.Body.Close() }()
		if json.NewDecoder(res.Body).Decode(&answer) != nil {
			return out
		}
		for _, a := range answer.Data.Alerts {
			if a.State == "firing" {
				out[a.Labels["alertname"]+" "+a.Labels["server"]] = true
			}
		}
		return out
	}
	fires := func(alert string) func([]byte) bool {
		return func([]byte) bool { return firing()[alert] }
	}
	await("the alert of a server", fires(`McptrackServerAway crashes "1"`))
	if now := firing(); now["McptrackServerAway works"] {
		t.Errorf("others fire, too: %v", now)
	}
	ours.Close()
	await("the alert that mcptrack is down", fires("McptrackDown "))
}
