//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
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

// endpoints are what webhooks are sent to. They answer after some time, so that deliveries are in progress when a process is killed.
type endpoints struct {
	*testing.T
	server *httptest.Server

	mu         sync.Mutex
	got        map[string]map[string]string // by path: contents by id of the event
	gaps       map[string]int
	duplicates int
}

func newEndpoints(t *testing.T) *endpoints {
	e := &endpoints{T: t, got: map[string]map[string]string{"/subscription": {}, "/config": {}}, gaps: map[string]int{}}
	e.server = httptest.NewServer(http.HandlerFunc(e.serve))
	t.Cleanup(e.server.Close)
	return e
}

func (e *endpoints) serve(w http.ResponseWriter, q *http.Request) {
	raw, _ := io.ReadAll(q.Body)
	time.Sleep(time.Millisecond) // keeps deliveries in flight
	var body struct {
		Type, EventID, Name, Timestamp string
		Data                           json.RawMessage
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		e.Errorf("%v: %s", err, raw)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if body.Type == "gap" {
		e.gaps[q.URL.Path]++
		return
	}
	content := fmt.Sprint(body.Name, body.Timestamp, string(body.Data))
	before, again := e.got[q.URL.Path][body.EventID]
	if again {
		e.duplicates++
	}
	if again && before != content || body.EventID == "" || body.EventID != q.Header.Get("webhook-id") {
		e.Errorf("%s came as %s and as %s", q.Header.Get("webhook-id"), before, content)
	}
	e.got[q.URL.Path][body.EventID] = content
}

// missing counts the events that did not come to a path.
func (e *endpoints) missing(path string, ids []string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		if e.got[path][id] == "" {
			n++
		}
	}
	return n
}

// complete reports whether all came to both, or a gap was sent: a process that takes over skips
// more than 1,000 events with one.
func (e *endpoints) complete(ids []string) bool {
	for _, path := range []string{"/subscription", "/config"} {
		e.mu.Lock()
		gaps := e.gaps[path]
		e.mu.Unlock()
		if gaps == 0 && e.missing(path, ids) > 0 {
			return false
		}
	}
	return true
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

// Three gateways on a cluster of three NATS servers deliver to a subscription and to a
// webhook of the config. The gateway that delivers is killed, and then the NATS server that
// leads the log is killed: every event is delivered or covered by a gap, and duplicates are
// identical. MCPTRACK_EVENTS and MCPTRACK_KILLS make it longer; see scripts/webhook-kills.sh.
func TestWebhooksOnACluster(t *testing.T) {
	t.Parallel()
	total, kills := 1000, 1
	if n, err := strconv.Atoi(os.Getenv("MCPTRACK_EVENTS")); err == nil {
		total = n
	}
	if n, err := strconv.Atoi(os.Getenv("MCPTRACK_KILLS")); err == nil {
		kills = n
	}
	const token = "0123456789abcdefghijklmnop"
	to, dir := newEndpoints(t), t.TempDir()
	file, tokens, key := filepath.Join(dir, "mcp-servers.json"), filepath.Join(dir, "tokens"), filepath.Join(dir, "key")
	save(t, file, fmt.Sprintf(`{"mcpServers": {"docs": {"type": "http", "url": "http://127.0.0.1:1/mcp", "trackResources": true}},
"webhooks": [{"url": "%s/config", "secret": %q, "allowPrivate": true, "types": ["resource.updated"]}]}`, to.server.URL, webhookSecret))
	for path, text := range map[string]string{tokens: "chat " + token + "\n", key: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nats := journaltest.StartCluster(t)
	url := nats.URL()
	start := func() *serving {
		return serveCommand(t, mcptrackCommand(context.Background(), "gateway", "--addr", "127.0.0.1:0", "--config", file, "--token-file", tokens, "--events", "--nats", url,
			"--events-key-file", key, "--events-allow", "http://127.0.0.1:*"))
	}
	gateways := map[int]*serving{}
	for range 3 {
		s := start()
		gateways[s.cmd.Process.Pid] = s
	}
	log, err := natslog.Open(t.Context(), natslog.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	until := func(what string, ok func() bool) { t.Helper(); waitFor(t, what, ok) }
	holder := func(source string) (pid int) {
		leases, err := log.Leases()
		for _, l := range leases {
			if err == nil && l.Name == "webhooks/"+source {
				pid, _ = strconv.Atoi(l.Process[strings.LastIndexByte(l.Process, ':')+1:])
			}
		}
		return pid
	}
	until("both are delivered by a gateway", func() bool { return gateways[holder("subscription")] != nil && gateways[holder("config")] != nil })
	for pid, s := range gateways {
		if pid != holder("subscription") { // any of them answers
			subscribeWebhook(t, s.url, token, to.server.URL+"/subscription")
			break
		}
	}
	var ids []string
	store := func(n int) {
		t.Helper()
		for range n - 1 {
			if err := log.Append(&event.Event{ServerID: "docs", ResourceURI: "file:///a", Timestamp: time.Now(), Cause: event.CauseNotify, Payload: event.ResourceUpdated{Name: "ours"}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := log.Store(t.Context(), &event.Event{ServerID: "docs", ResourceURI: "file:///a", Timestamp: time.Now(), Cause: event.CauseNotify, Payload: event.ResourceUpdated{Name: "ours"}}); err != nil {
			t.Fatal(err)
		}
		ids = ids[:0]
		for e, err := range log.Read(t.Context(), 0) {
			if err != nil || e.Gap != nil {
				t.Fatalf("the log has a gap: %v", err)
			}
			if ev, err := e.Event(); err == nil && ev.ResourceURI == "file:///a" {
				ids = append(ids, e.ID)
			}
		}
	}
	until("the webhook of the config has begun", func() bool {
		store(1)
		return to.missing("/config", ids[len(ids)-1:]) == 0
	})
	until("the first are delivered", func() bool { return to.missing("/subscription", ids[len(ids)-1:]) == 0 })
	begun := len(ids) - 1 // those before may be older than the webhook of the config
	part := total / (kills + 2)
	for range kills {
		store(part)
		until("some are delivered", func() bool { return to.missing("/subscription", ids) < len(ids)-part/4 })
		pid := holder("subscription")
		for gateways[pid] == nil {
			pid = holder("subscription")
		}
		gateways[pid].stop(syscall.SIGKILL)
		delete(gateways, pid)
		if kills > 1 {
			s := start()
			gateways[s.cmd.Process.Pid] = s
		}
		store(part / 4)
		until("the next one delivers", func() bool { return to.complete(ids[begun:]) })
	}
	store(part)
	if _, err := nats.KillLeader(t.Context(), "mcptrack"); err != nil {
		t.Fatal(err)
	}
	store(part)
	until("the rest is delivered", func() bool { return to.complete(ids[begun:]) })
	until("what comes then is delivered, also after a gap", func() bool {
		store(1)
		time.Sleep(500 * time.Millisecond) // until it is delivered; if a gap covers it, the next event counts
		return to.missing("/config", ids[len(ids)-1:]) == 0 && to.missing("/subscription", ids[len(ids)-1:]) == 0
	})
	to.mu.Lock()
	defer to.mu.Unlock()
	t.Logf("%d events, %d duplicates, gaps %v", len(ids), to.duplicates, to.gaps)
}
