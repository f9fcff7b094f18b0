package mcpserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// postAs sends a message with credentials, which may be empty.
func (h *testServer) postAs(name, session, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if name != "" {
		r.Header.Set("Authorization", "Bearer "+name)
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// openAs begins a session and returns its id, "" if that was refused.
func (h *testServer) openAs(t *testing.T, name string) string {
	t.Helper()
	w := h.postAs(name, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
	if w.Code != http.StatusOK && (w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "too many")) {
		t.Errorf("%s: %d %s", name, w.Code, w.Body)
	}
	return w.Header().Get("Mcp-Session-Id")
}

// A principal with too many sessions loses its own, and never one of another.
func TestSessionsOfOthersStay(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{})
	defer h.Close()
	alive := func(name, session string) bool { return h.postAs(name, session, ping).Code == http.StatusOK }
	bob := h.openAs(t, "bob")
	var alice []string
	for range 2_500 {
		alice = append(alice, h.openAs(t, "alice"))
	}
	if !alive("bob", bob) {
		t.Error("the sessions of alice ended that of bob")
	}
	if alive("alice", alice[0]) || !alive("alice", alice[2_499]) {
		t.Error("alice did not lose her oldest session")
	}
	if second := h.openAs(t, "bob"); second == "" || !alive("bob", bob) {
		t.Error("bob cannot open a second session beside his first")
	}
	if h.openAs(t, "carol") == "" || h.openAs(t, "") == "" {
		t.Error("a new client cannot open a session")
	}
}

// When a principal uses all sessions, it is refused more, and another one gets its share.
func TestSessionsAreShared(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{MaxSessions: 4})
	var calls sync.WaitGroup
	defer calls.Wait()
	defer h.Close()
	busy := func(name string) {
		t.Helper()
		session := h.openAs(t, name)
		if session == "" {
			t.Fatalf("%s is refused", name)
		}
		calls.Go(func() { h.postAs(name, session, call("wait", "")) })
		<-h.began
	}
	for range 4 {
		busy("alice")
	}
	if h.openAs(t, "alice") != "" {
		t.Error("alice gets a fifth session")
	}
	busy("bob")
	busy("bob")
	if h.openAs(t, "bob") != "" || h.openAs(t, "alice") != "" {
		t.Error("there are more than the shares")
	}
	busy("carol")
}

// Whoever a request is is decided by Options.Principal, if there is one.
func TestPrincipalOfOptions(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{Principal: func(r *http.Request) string {
		name, _, _ := strings.Cut(r.Header.Get("Authorization"), ".")
		return name
	}})
	defer h.Close()
	session := h.openAs(t, "alice.1")
	if w := h.postAs("alice.2", session, ping); w.Code != http.StatusOK {
		t.Errorf("the same principal: %d", w.Code)
	}
	if w := h.postAs("bob.1", session, ping); w.Code != http.StatusNotFound {
		t.Errorf("another principal: %d", w.Code)
	}
}

// The subscriptions of one principal do not keep another one from subscribing.
func TestSubscribersAreShared(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{Subscriptions: subscriptions.Options{MaxSubscribers: 4, MaxTotal: 4}}, "a", "b", "c", "d", "e")
	defer h.Close()
	subscribe := func(name, session, uri string) bool {
		return strings.Contains(h.postAs(name, session, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`).Body.String(), `"result"`)
	}
	alice := h.openAs(t, "alice")
	for _, n := range []string{"a", "b", "c", "d"} {
		if !subscribe("alice", alice, note(n)) {
			t.Errorf("alice cannot subscribe to %s", n)
		}
	}
	for range 3 {
		if h.openAs(t, "alice") == "" {
			t.Error("alice is refused")
		}
	}
	if h.openAs(t, "alice") != "" || subscribe("alice", alice, note("e")) {
		t.Error("alice is over the limit")
	}
	bob := h.openAs(t, "bob")
	if bob == "" || !subscribe("bob", bob, note("a")) || !subscribe("bob", bob, note("b")) || subscribe("bob", bob, note("c")) {
		t.Error("bob does not get his share")
	}
}

// Requests of one principal that take all slots do not delay those of another.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{MaxInFlight: 2})
	var calls sync.WaitGroup
	defer calls.Wait()
	defer h.Close()
	for range 4 {
		session := h.openAs(t, "alice")
		calls.Go(func() { h.postAs("alice", session, call("wait", "")) })
	}
	<-h.began
	<-h.began
	bob := h.openAs(t, "bob")
	calls.Go(func() { h.postAs("bob", bob, call("wait", "")) })
	within(t, h.began, "the call of bob")
}
