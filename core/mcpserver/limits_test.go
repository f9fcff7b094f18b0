package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Subscriptions beyond a limit are rejected; subscriptions within it work.
func TestSubscriptionLimits(t *testing.T) {
	t.Parallel()
	opts := mcpserver.Options{Subscriptions: subscriptions.Options{MaxURIs: 2, MaxSubscribers: 2}}
	listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + metaModern + `,"notifications":{"resourceSubscriptions":["note:///a","note:///b","note:///c","note:///d"]}}}`
	honoured := `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"%ssubscriptionId":1},"notifications":{"resourceSubscriptions":["note:///a","note:///b"]}}}`

	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		h := newTestServer(t, opts)
		w, other := h.pipe(t), h.pipe(t)
		w.send("%s", listen)
		w.expect(honoured, metaName)
		other.initialize()
		for _, c := range []struct {
			note string
			code int
		}{{"a", 0}, {"b", 0}, {"c", mcp.CodeInternal}, {"b", 0}} {
			other.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":%q}}`, note(c.note))
			if got := other.next(); code(got) != c.code {
				t.Errorf("%s: %s", c.note, got)
			}
		}
		third := h.pipe(t)
		third.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
		if got := third.next(); code(got) != mcp.CodeInternal || !strings.Contains(got, "too many") {
			t.Error(got)
		}
		third.send("%s", listen)
		if got := third.next(); code(got) != mcp.CodeInternal {
			t.Error(got)
		}
		third.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		if got := third.next(); code(got) != mcp.CodeInvalidParams {
			t.Error(got)
		}
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		s := newEndpoint(t, opts)
		e := s.stream("POST", modern("subscriptions/listen"), listen)
		e.expect(honoured, metaName)
		s.initialize()
		for _, body := range []string{listen, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`} {
			h := header(nil)
			if body == listen {
				h = modern("subscriptions/listen")
			}
			resp := s.ask(t.Context(), http.MethodPost, h, body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %s", body, resp.Status)
			}
		}
		e.leave()
		eventually(t, "there is room again", func() bool { return s.Subscriptions().Stats().Subscribers == 1 })
		s.stream("POST", modern("subscriptions/listen"), listen).expect(honoured, metaName)
	})
}

// Notifications that a Func sends after its response, and those that cannot be encoded, are
// dropped.
func TestLateNotify(t *testing.T) {
	t.Parallel()
	late := make(chan *mcpserver.Request, 1)
	srv := mcpserver.New(mcpserver.Options{CallTool: func(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		r.Notify("notifications/progress", func() {})
		late <- r
		return content("ok"), nil
	}})
	h := &testServer{Server: srv}
	s := &endpoint{testServer: h, t: t, url: h.over(t).URL}
	w := h.pipe(t)
	for range 20 {
		w.send("%s", call("x", ","+metaModern))
		r := within(t, late, "the request")
		w.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ok"}],"resultType":"complete","_meta":{"%sserverInfo":{"name":"mcptrack","version":"dev"}}}}`, metaName)
		r.Notify("notifications/progress", map[string]int{"progress": 1})
		if status, body := s.post(modern("tools/call", "Mcp-Name", "x"), "%s", call("x", ","+metaModern)); status != 200 || strings.Contains(body, "progress") {
			t.Error(body)
		}
		within(t, late, "the request").Notify("notifications/progress", map[string]int{"progress": 1})
	}
}

// A request that waits for a slot ends with its client or the server.
func TestWaitingForASlot(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{MaxInFlight: 1})
	wait := func(ctx context.Context, done chan<- int) {
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(call("wait", ","+metaModern)))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"wait"}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			done <- 0
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		done <- resp.StatusCode
	}
	one, two := make(chan int, 1), make(chan int, 1)
	go wait(t.Context(), one)
	within(t, s.began, "the call")
	ctx, leave := context.WithCancel(t.Context())
	go wait(ctx, two)
	// Requests that need no slot are answered meanwhile.
	if status, _ := s.post(modern("tools/list"), toolList); status != http.StatusOK {
		t.Error(status)
	}
	leave()
	if got := within(t, two, "the end of who left"); got != 0 {
		t.Error(got)
	}
	go wait(t.Context(), two)
	s.post(modern("tools/list"), toolList)
	s.Close()
	if got := within(t, one, "the running call"); got != http.StatusOK {
		t.Errorf("running call: %d", got)
	}
	// It briefly had the slot, waited, or came late: it has a response.
	if got := within(t, two, "the call that waited"); got != http.StatusOK && got != http.StatusServiceUnavailable {
		t.Errorf("waiting: %d", got)
	}
	if began, ended := 1+len(s.began), len(s.ended); began != ended {
		t.Errorf("%d calls began, %d ended", began, ended)
	}
}

func TestDuplicateHeaders(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{})
	for _, name := range []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(call("echo", ","+metaModern)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"}}
		r.Header[name] = append(r.Header[name], r.Header.Get(name))
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || code(string(b)) != mcp.CodeHeaderMismatch {
			t.Errorf("%s: %d %s", name, resp.StatusCode, b)
		}
	}
}

func TestBrokenInput(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{})
	w := h.pipe(t)
	w.initialize()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
	within(t, h.began, "the call")
	boom := errors.New("boom")
	_ = w.in.CloseWithError(boom)
	// The call does not end by itself: broken input ends it, unlike the end of input.
	within(t, h.ended, "the end of the call")
	if err := within(t, w.ended, "the end"); !errors.Is(err, boom) {
		t.Error(err)
	}
}

// A principal with too many sessions loses its own, and never those of another principal.
func TestSessionsOfOthersStay(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{MaxSessions: 10})
	defer h.Close()
	alive := func(name, session string) bool { return h.postAs(name, session, ping).Code == http.StatusOK }
	bob := h.openAs(t, "bob")
	var alice []string
	for range 25 {
		alice = append(alice, h.openAs(t, "alice"))
	}
	if !alive("bob", bob) {
		t.Error("alice's sessions ended bob's")
	}
	if alive("alice", alice[0]) || !alive("alice", alice[24]) {
		t.Error("alice did not lose her oldest session")
	}
	if second := h.openAs(t, "bob"); second == "" || !alive("bob", bob) {
		t.Error("bob cannot open a second session beside his first")
	}
	if h.openAs(t, "carol") == "" || h.openAs(t, "") == "" {
		t.Error("a new client cannot open a session")
	}
}

// A principal that uses all sessions gets no more, and another one gets its share.
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
		t.Error("somebody got more than a share")
	}
	busy("carol")
}

// Options.Principal decides whose a request is.
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

// Requests of one principal that take all slots do not delay requests of another.
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
