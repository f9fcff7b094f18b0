package dashboard

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// evil is a name that a hostile server chose.
const evil = `<img src=x onerror="document.title='owned'"></script><b>bold` + "\u202e\x1b[31m"

// world returns a snapshot with servers, the first of which has all resources and the
// second of which fails, with hostile names.
func world(servers, resources int) *status.Snapshot {
	at := time.Date(2026, 11, 20, 19, 37, 25, 0, time.UTC)
	snap := &status.Snapshot{Epoch: "ab", Seq: 9}
	for i := range servers {
		snap.Servers = append(snap.Servers, status.ServerStatus{ID: fmt.Sprintf("server-%04d", i), State: event.Ready, Transport: config.TransportHTTP, Since: at,
			Info: session.Info{Transport: config.TransportHTTP, Era: session.EraModern, ServerName: evil}, Mode: event.Push})
	}
	away := &snap.Servers[1]
	away.State, away.Error, away.Attempt, away.NextRetry = event.Backoff, "connect: "+evil, 3, at.Add(time.Minute)
	docs := &snap.Servers[0]
	var items []catalog.Item
	for i := range resources {
		text := fmt.Sprintf("# Page %d\n\nfirst line\n", i)
		docs.Resources = append(docs.Resources, status.ResourceStatus{URI: fmt.Sprintf("file:///%05d.md", i), Digest: catalog.Digest{byte(i), 1}, Size: int64(len(text)), MimeType: "text/markdown", Text: &text})
	}
	docs.Resources[0].URI = "file:///00000.md?" + evil
	raw, _ := json.Marshal(map[string]string{"uri": docs.Resources[0].URI, "name": evil})
	if it, err := catalog.NewItem(catalog.Resources, raw); err == nil {
		items = append(items, it)
	}
	docs.Lists = map[catalog.Kind]catalog.List{catalog.Resources: catalog.NewList(items)}
	return snap
}

// fixed is a snapshot that stays as it is.
func fixed(snap *status.Snapshot) func() *status.Snapshot {
	return func() *status.Snapshot { return snap }
}

func serve(t *testing.T, d *Dashboard, more map[string]http.Handler) *httptest.Server {
	t.Helper()
	mux, routes := http.NewServeMux(), d.Routes()
	maps.Copy(routes, more)
	for pattern, h := range routes {
		mux.Handle(pattern, h)
	}
	// The page must work with the policy of package web.
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func fetch(t *testing.T, address string, into any) int {
	t.Helper()
	r, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	return r.StatusCode
}

func TestAPI(t *testing.T) {
	s := serve(t, New(Options{Version: "1.2.3", Snapshot: fixed(world(10, 100)), Clients: func() int { return 4 }}), nil)
	var st overview
	fetch(t, s.URL+"/api/status", &st)
	if st.Version != "1.2.3" || st.Servers != 10 || st.States[event.Ready] != 9 || st.Resources != 100 || st.Clients != 4 {
		t.Errorf("%+v", st)
	}
	var servers []status.Summary
	fetch(t, s.URL+"/api/servers", &servers)
	if len(servers) != 10 || servers[1].State != event.Backoff || servers[1].NextRetry != "2026-11-20T19:38:25.000Z" || servers[0].Resources != 100 {
		t.Errorf("%d servers, %+v", len(servers), servers[1])
	}
	var list []resource
	fetch(t, s.URL+"/api/servers/server-0000/resources", &list)
	if len(list) != 100 || list[0].Name != evil || list[1].MimeType != "text/markdown" {
		t.Errorf("%d resources, %+v", len(list), list[0])
	}
	var c content
	fetch(t, s.URL+"/api/servers/server-0000/content?uri="+url.QueryEscape(list[0].URI), &c)
	if c.Text == nil || !strings.HasPrefix(*c.Text, "# Page 0\n") {
		t.Errorf("%+v", c)
	}
	for _, path := range []string{"/api/servers/nobody/resources", "/api/servers/nobody/content", "/api/servers/server-0000/content?uri=nothing"} {
		var refusal map[string]string
		if code := fetch(t, s.URL+path, &refusal); code != http.StatusNotFound || refusal["error"] == "" {
			t.Errorf("%s: %d %v", path, code, refusal)
		}
	}
}

// TestStatusCanBeResumed: the id in the status is not later than its other members, even
// if events happen meanwhile. It is an id of the feeds, not of the tracker.
// The status names the webhooks that fail first, and not too many.
func TestStatusOfWebhooks(t *testing.T) {
	all := make([]webhook.EndpointStatus, 300)
	for i := range all {
		all[i] = webhook.EndpointStatus{Host: fmt.Sprint("h", i), State: webhook.Active}
	}
	all[250].State, all[260].State = webhook.Failing, webhook.Suspended
	s := serve(t, New(Options{Snapshot: fixed(world(2, 1)), Webhooks: func(*http.Request) []webhook.EndpointStatus { return slices.Clone(all) }}), nil)
	var st overview
	fetch(t, s.URL+"/api/status", &st)
	if len(st.Webhooks) != maxWebhooks || st.MoreWebhooks != 100 || st.Webhooks[0].Host != "h260" || st.Webhooks[1].Host != "h250" || st.Webhooks[2].Host != "h0" {
		t.Errorf("%d, %d, %+v", len(st.Webhooks), st.MoreWebhooks, st.Webhooks[:3])
	}
}

func TestStatusCanBeResumed(t *testing.T) {
	happened := uint64(41)
	s := serve(t, New(Options{
		Last: func() (string, uint64) { defer func() { happened++ }(); return "3f9a1c20b7e4d581", happened },
		Snapshot: func() *status.Snapshot {
			defer func() { happened++ }()
			return &status.Snapshot{Epoch: "ab", Seq: 9, Servers: make([]status.ServerStatus, happened)}
		},
	}), nil)
	var st overview
	fetch(t, s.URL+"/api/status", &st)
	if st.Epoch != "3f9a1c20b7e4d581" || st.Seq != 41 || st.Servers != 42 {
		t.Errorf("%+v", st)
	}
}

// TestNothingIsChanged: all routes are read-only, except those that write what the user decides about the lock.
func TestNothingIsChanged(t *testing.T) {
	l := newLocked(t, map[string][]string{"docs": {"dig digs"}})
	l.offer("docs", "dig EVIL")
	l.look()
	d := New(Options{Snapshot: fixed(world(12, 60)), Review: l.review()})
	s := writable(t, d)
	for pattern := range d.Routes() {
		if !strings.HasPrefix(pattern, "GET ") {
			t.Errorf("%s is not read-only", pattern)
		}
	}
	if writes := slices.Sorted(maps.Keys(d.Writes())); !slices.Equal(writes, []string{"POST /api/lock/approve", "POST /api/lock/reject", "POST /api/lock/undo"}) {
		t.Errorf("writes: %q", writes)
	}
	before, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/servers", "/api/lock", "/api/lock/approve", "/api/lock/reject", "/api/lock/undo"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
			q, err := http.NewRequestWithContext(t.Context(), method, s.URL+path+"?command=touch&serverId=docs&changes=all", strings.NewReader(`{"command":"touch"}`))
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			_ = r.Body.Close()
			want := http.StatusMethodNotAllowed
			switch write := strings.HasPrefix(path, "/api/lock/"); {
			case write && method == http.MethodPost:
				want = http.StatusBadRequest
			case !write && method == http.MethodGet:
				want = http.StatusOK
			}
			if r.StatusCode != want {
				t.Errorf("%s %s: %s", method, path, r.Status)
			}
		}
	}
	if after, err := os.ReadFile(l.path); err != nil || string(after) != string(before) {
		t.Errorf("the lock was changed: %v", err)
	}
}
