package serve

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/lock/locktest"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/web"
)

// TestNoRouteStartsOrChangesAnything asks every route, by every method and in all ways that other products
// understood, to run a command. The servers, one connecting and one disabled, must not change.
func TestNoRouteStartsOrChangesAnything(t *testing.T) {
	var dials atomic.Int64
	server := config.Server{ID: "live", Enabled: true, Tracking: config.Tracking{TrackResources: true}, Transport: config.TransportStdio, Program: config.Program{Command: "live"}}
	off := server
	off.ID, off.Enabled = "off", false
	path := locktest.Path(t)
	if err := lock.Update(t.Context(), path, func(l *lock.Lock) error { l.Servers["live"] = &lock.Server{}; return nil }); err != nil {
		t.Fatal(err)
	}
	locked, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := guard.New(guard.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	desired := engine.Desired{Config: &config.Config{Servers: []config.Server{server, off}}}
	f := &feedServer{env: &cli.Env{Version: "test", LookupEnv: func(string) (string, bool) { return "", false }}, globals: &cli.Globals{}, logger: slog.New(slog.DiscardHandler), opts: options{JournalFlags: cli.JournalFlags{Dir: t.TempDir()}}}
	err = f.open(t.Context(), desired, &engine.Lock{Guard: guarded}, tracker.Options{
		Dial: func(ctx context.Context, _ config.Server, _ session.Options) (*session.Session, error) {
			dials.Add(1)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	s, err := web.New(web.Options{Ready: f.engine.Ready})
	if err != nil {
		t.Fatal(err)
	}
	// All routes of serve-sse. Whoever adds a route confirms here that it only shows something, and
	// starts, stops and changes nothing, unless it is in writes.
	routes := []string{
		"/api/mcp/resource-events",
		"/events",
		"/favicon.ico",
		"/healthz",
		"/readyz",
		"GET /api/activity",
		"GET /api/calls",
		"GET /api/history",
		"GET /api/hooks/{id}/body",
		"GET /api/items",
		"GET /api/lock",
		"GET /api/servers",
		"GET /api/servers/{id}",
		"GET /api/servers/{id}/content",
		"GET /api/servers/{id}/events",
		"GET /api/servers/{id}/image", // reads a followed image
		"GET /api/servers/{id}/log",
		"GET /api/servers/{id}/resources",
		"GET /api/status",
		"GET /assets/",
		"GET /metrics",
		"GET /{$}",
		"POST /api/lock/approve",
		"POST /api/lock/reject",
		"POST /api/lock/undo",
		"POST /api/webhooks/resend", // sends stored events again
	}
	writes := []string{"/api/lock/approve", "/api/lock/reject", "/api/lock/undo", "/api/webhooks/resend"} // what the user decides
	parts := f.routes(s)
	if got := s.Routes(); !slices.Equal(got, routes) {
		t.Errorf("the routes are %q", got)
	}
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		serve := func(ctx context.Context) error { return s.Serve(ctx, ln) }
		if err := f.engine.Run(ctx, append(parts, engine.Reader(serve))...); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	defer running.Wait()
	defer cancel()
	state := func() (servers []string) {
		for _, srv := range f.engine.Tracker().Snapshot().Servers {
			servers = append(servers, srv.ID+" "+string(srv.State)+" since "+srv.Since.String())
		}
		return servers
	}
	settled := func() bool {
		servers := state()
		return dials.Load() > 0 && len(servers) == 2 && strings.Contains(servers[1], string(event.Disabled))
	}
	for end := time.Now().Add(30 * time.Second); !settled(); <-time.After(time.Millisecond) { // the engine connects in another goroutine
		if time.Now().After(end) {
			t.Fatalf("it does not connect: %q", state())
		}
	}
	before := state()
	touched := filepath.Join(t.TempDir(), "touched")
	orders := []order{
		{},
		{query: "?" + url.Values{"command": {"touch " + touched}, "id": {"evil"}, "enabled": {"true"}, "cmd": {touched}, "_method": {"POST"}}.Encode()},
		{kind: "application/json", body: `{"mcpServers":{"evil":{"command":"touch","args":["` + touched + `"],"trackResources":true}}}`},
		{kind: "application/json", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":{"command":"touch ` + touched + `"}}}`},
		{kind: "application/x-www-form-urlencoded", body: url.Values{"command": {"touch"}, "args": {touched}, "id": {"off"}, "enabled": {"true"}}.Encode()},
	}
	asked := 0
	for _, route := range append(s.Routes(), "/", "/api/servers/off", "/api/config", "/debug/pprof/") {
		path := strings.ReplaceAll(route[strings.Index(route, "/"):], "{$}", "")
		for _, id := range []string{"live", "off", "%2e%2e", "touch%20" + url.PathEscape(touched)} {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "MOVE", "RUN"} {
				for _, order := range orders {
					status := order.send(t, method, s.URL()+strings.ReplaceAll(path, "{id}", id))
					asked++
					switch look, write := method == "GET" || method == "HEAD", method == "POST" && slices.Contains(writes, path); {
					case write && status != http.StatusForbidden: // not from the page
						t.Errorf("%s %s: %d", method, path, status)
					case write:
					case look && order.body != "" && status != http.StatusBadRequest:
						t.Errorf("%s %s with a body: %d", method, path, status)
					case !look && status != http.StatusMethodNotAllowed && status != http.StatusNotFound:
						t.Errorf("%s %s%s: %d", method, path, order.query, status)
					}
				}
			}
			if !strings.Contains(path, "{id}") {
				break
			}
		}
	}
	if after := state(); !slices.Equal(before, after) || !strings.Contains(before[1], string(event.Disabled)) {
		t.Errorf("the servers were %q and are %q", before, after)
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("%d connections were tried", n)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(locked) {
		t.Errorf("the lock was changed: %v", err)
	}
	if _, err := os.Stat(touched); err == nil {
		t.Error("a command was run")
	}
	if asked < 500 {
		t.Errorf("only %d requests", asked)
	}
}

// With --dashboard-actions, only the dashboard itself uses servers.
func TestDashboardActions(t *testing.T) {
	t.Parallel()
	f := &feedServer{env: &cli.Env{LookupEnv: func(string) (string, bool) { return "", false }}, globals: &cli.Globals{}, logger: slog.New(slog.DiscardHandler), opts: options{actions: true, JournalFlags: cli.JournalFlags{Dir: t.TempDir()}}}
	if err := f.open(t.Context(), engine.Desired{Config: &config.Config{}}, nil, tracker.Options{}); err != nil {
		t.Fatal(err)
	}
	defer f.close()
	s, err := web.New(web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.routes(s)
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ctx, ln) })
	defer serving.Wait()
	defer cancel()
	for _, path := range []string{"call", "prompt", "restart"} {
		for origin, want := range map[string]int{"": http.StatusForbidden, "http://127.0.0.1:1": http.StatusForbidden, s.URL(): http.StatusNotFound} {
			body := map[string]string{"call": `{"tool":"t"}`, "prompt": `{"prompt":"p"}`}[path]
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/api/servers/nobody/"+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Content-Type", "application/json")
			if origin != "" {
				q.Header.Set("Origin", origin)
			}
			r, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Body.Close()
			if r.StatusCode != want {
				t.Errorf("%s from %q: %s", path, origin, r.Status)
			}
		}
	}
}

// order is an attempt to make a route run a command.
type order struct{ query, kind, body string }

// send returns the status; it closes a stream immediately.
func (o order) send(t *testing.T, method, address string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, address+o.query, strings.NewReader(o.body))
	if err != nil {
		t.Fatal(err)
	}
	if o.kind != "" {
		q.Header.Set("Content-Type", o.kind)
	}
	p, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatalf("%s %s: %v", method, address, err)
	}
	_ = p.Body.Close()
	return p.StatusCode
}
