package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/feed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// servers are the servers of an API, which change during a test.
type servers struct {
	mu     sync.Mutex
	all    []status.ServerStatus
	woken  []string
	asleep int // servers that were released
}

func (s *servers) snapshot() *status.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &status.Snapshot{Servers: slices.Clone(s.all)}
}

func (s *servers) demand(id string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken = append(s.woken, id)
	return func() { s.mu.Lock(); defer s.mu.Unlock(); s.asleep++ }
}

func (s *servers) set(id string, change func(*status.ServerStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.all[slices.IndexFunc(s.all, func(st status.ServerStatus) bool { return st.ID == id })])
}

func ready(st *status.ServerStatus) {
	st.State, st.Reason = event.Ready, ""
	st.Info = session.Info{ProtocolVersion: "2026-07-28", Era: session.EraModern, Transport: "http", ServerName: "S<1>", Capabilities: mcp.Capabilities{Tools: true, Prompts: true},
		RawCapabilities: json.RawMessage(`{"tools":{}, "prompts":{}}`)}
	st.Lists = map[catalog.Kind]catalog.List{catalog.Tools: {{Key: "dig", Raw: json.RawMessage(`{"name":"dig","title":"<b>\u202e"}`)}}}
}

func asleep(id string) status.ServerStatus {
	return status.ServerStatus{ID: id, State: event.Pending, Reason: event.Asleep}
}

func newAPI(s *servers) *API {
	return New(Options{Feed: feed.Options{Log: journal.NewMemory(journal.MemoryOptions{})}, Dashboard: dashboard.Options{Version: "test", Snapshot: s.snapshot}, Demand: s.demand})
}

func offersOf(t *testing.T, a *API, query string) (offers []Offer, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/offers"+query, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	body = w.Body.String()
	if err := json.Unmarshal(w.Body.Bytes(), &offers); err != nil {
		t.Fatal(err)
	}
	return offers, body
}

// A server that was never connected is woken and waited for, until it is ready or has failed once. One
// that is asleep is answered for from its last session.
func TestOffersWakesServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{all: []status.ServerStatus{asleep("a"), asleep("b"), asleep("c"), asleep("d")}}
		s.set("c", ready)
		s.set("c", func(st *status.ServerStatus) { st.State, st.Reason = event.Pending, event.Asleep })
		time.AfterFunc(2*time.Second, func() { s.set("a", ready) })
		time.AfterFunc(3*time.Second, func() {
			s.set("b", func(st *status.ServerStatus) { st.State, st.Attempt, st.Error = event.Backoff, 1, "exit status 1" })
		})
		began := time.Now()
		offers, body := offersOf(t, newAPI(s), "?server=a&server=b&server=c")
		if took := time.Since(began); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if fmt.Sprint(s.woken) != "[a b]" || s.asleep != 2 {
			t.Errorf("woke %v, released %d", s.woken, s.asleep)
		}
		var got []string
		for _, o := range offers {
			tools, ok := o.Offered[catalog.Tools]
			got = append(got, fmt.Sprint(o.ID, " ", o.State, " ", o.Error, " ", len(tools), ok))
		}
		if want := "a Ready  1 true|b Backoff exit status 1 0 true|c Pending  1 true"; strings.Join(got, "|") != want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
		}
		if _, listed := offers[0].Offered[catalog.Prompts]; listed {
			t.Error("prompts were not loaded, but are listed")
		}
		if resources, ok := offers[0].Offered[catalog.Resources]; !ok || len(resources) != 0 {
			t.Error("a list that the server does not support is not empty")
		}
		if !strings.Contains(body, `{"name":"dig","title":"<b>`) || !strings.Contains(body, `"serverName":"S<1>"`) {
			t.Errorf("items are not as the server sent them: %s", body)
		}
	})
}

func TestOffersOfSomeKinds(t *testing.T) {
	s := &servers{all: []status.ServerStatus{asleep("a")}}
	s.set("a", ready)
	for query, want := range map[string]int{"": 4, "?kind=tools": 1, "?kind=tools&kind=resources": 2, "?kind=none": 0} {
		offers, _ := offersOf(t, newAPI(s), query)
		if len(offers) != 1 || len(offers[0].Offered) != want {
			t.Errorf("%q: %+v", query, offers)
		}
	}
	if offers, _ := offersOf(t, newAPI(s), "?server=b"); len(offers) != 0 {
		t.Errorf("another server: %+v", offers)
	}
}

// A client that leaves is not waited for, and does not keep servers awake.
func TestOffersEndWithTheirClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &servers{all: []status.ServerStatus{asleep("a")}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		newAPI(s).Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/offers", nil))
		if s.asleep != 1 {
			t.Errorf("%d servers were released", s.asleep)
		}
	})
}

// Clients of a daemon have the API, but not the page.
func TestRoutesOfTheHandler(t *testing.T) {
	s := &servers{all: []status.ServerStatus{asleep("a")}}
	s.set("a", ready)
	a := newAPI(s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // sent to once
	go func() { done <- a.Run(ctx) }()
	srv := httptest.NewServer(a.Handler())
	defer srv.Close()
	for path, want := range map[string]int{
		"/api/status": 200, "/api/servers": 200, "/api/servers/a": 200, "/api/history?server=a": 200, "/api/servers/a/log": 200, "/api/offers": 200, "/healthz": 200,
		"/": 404, "/assets/app.js": 404, "/metrics": 404,
	} {
		res, err := srv.Client().Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = res.Body.Close(); res.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, res.StatusCode, want)
		}
	}
	res, err := srv.Client().Get(srv.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	text, err := io.ReadAll(res.Body) // ends with Run
	if _ = res.Body.Close(); err != nil || !strings.Contains(string(text), "event: tracker_stopped\n") {
		t.Errorf("%v: %s", err, text)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
