package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func newAsking(t *testing.T) (*asking, *outside) {
	a := &asking{}
	return a, newOutside(t, Options{Dial: a.Dial}, sessiontest.Entry("docs"))
}

// answering connects a client that answers with its name, and fails the test if it gets a request
// or message for another client.
func (o *outside) answering(name string, overHTTP bool) (*session.Session, *messages) {
	o.Helper()
	got := &messages{}
	side := &session.ClientSide{
		Capabilities: json.RawMessage(`{"sampling":{},"elicitation":{"form":{}},"roots":{"listChanged":true},"experimental":{"x":{}}}`),
		Request: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			if !strings.Contains(string(params), name+".") {
				o.Errorf("%s was asked %s %s", name, method, params)
			}
			if strings.Contains(string(params), "refuse") {
				return nil, &session.RPCError{Code: -1, Message: "user rejected", Data: json.RawMessage(`{"d":1}`)}
			}
			return json.RawMessage(`{"by":"` + name + `","asked":` + string(params) + `}`), nil
		},
		Message: got.add,
	}
	if overHTTP {
		return o.clientOf(session.EraLegacy, nil, side), got
	}
	return o.over(session.EraLegacy, side), got
}

type messages struct {
	mu  sync.Mutex
	all []string
}

func (m *messages) add(_ string, params json.RawMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, string(params))
}

func (m *messages) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all
	m.all = nil
	return all
}

func ask(ctx context.Context, c *session.Session, method, params, log string) (string, error) {
	arguments, _ := json.Marshal(map[string]string{"method": method, "params": params, "log": log})
	raw, err := c.Do(ctx, session.Request{Method: "tools/call", Params: map[string]json.RawMessage{"name": json.RawMessage(`"ask"`), "arguments": arguments}})
	return string(raw), err
}

// What a server asks during a call of one client is answered by that client and no other, over
// both transports, with several concurrent calls of several clients.
func TestServerAsksTheRightClient(t *testing.T) {
	t.Parallel()
	a, o := newAsking(t)
	rounds := 300
	if testing.Short() {
		rounds = 9
	}
	var all sync.WaitGroup
	for i, name := range []string{"ann", "bob", "cat", "dan"} {
		c, messages := o.answering(name, i%2 == 0)
		for range 3 {
			all.Go(func() {
				for n := range rounds {
					method := []string{"sampling/createMessage", "elicitation/create", "roots/list"}[n%3]
					params := fmt.Sprintf(`{"for":"%s.%d"}`, name, n)
					got, err := ask(t.Context(), c, method, params, name+".log")
					if err != nil || !strings.Contains(got, `{"by":"`+name+`","asked":`+params+`}`) {
						t.Errorf("%s: %s, %v", name, got, err)
						return
					}
				}
			})
		}
		t.Cleanup(func() {
			for _, m := range messages.take() {
				if !strings.Contains(m, name+".log") {
					t.Errorf("%s got the message %s", name, m)
				}
			}
		})
	}
	all.Wait()
	conns, _ := a.of(`"sampling"`)
	if len(conns) != 4 {
		t.Errorf("%d sessions for 4 clients", len(conns))
	}
	for _, c := range conns {
		if want := `{"elicitation":{"form":{}},"roots":{"listChanged":true},"sampling":{}}`; c.capabilities != want {
			t.Errorf("declared %s", c.capabilities)
		}
	}
}

// Errors of a client reach the server; a client is not asked for what it did not declare.
func TestClientRefuses(t *testing.T) {
	t.Parallel()
	for _, overHTTP := range []bool{false, true} {
		_, o := newAsking(t)
		c, _ := o.answering("ann", overHTTP)
		if got, err := ask(t.Context(), c, "elicitation/create", `{"for":"ann.refuse"}`, ""); err != nil || !strings.Contains(got, `{"code":-1,"message":"user rejected","data":{"d":1}}`) {
			t.Errorf("%s, %v", got, err)
		}
		if got, err := ask(t.Context(), c, "experimental/x", `{"for":"ann."}`, ""); err != nil || !strings.Contains(got, `"code":-32601`) {
			t.Errorf("%s, %v", got, err)
		}
	}
}

// A client's own session begins with its first request and ends with the client; clients that
// declare nothing share a session.
func TestClientSessionsEnd(t *testing.T) {
	t.Parallel()
	for _, overHTTP := range []bool{false, true} {
		a, o := newAsking(t)
		c, _ := o.answering("ann", overHTTP)
		plain := o.client(session.EraLegacy, nil)
		if _, err := plain.List(t.Context(), "tools"); err != nil {
			t.Fatal(err)
		}
		if conns, _ := a.of(`"sampling"`); len(conns) != 0 {
			t.Errorf("%d sessions before a request", len(conns))
		}
		if _, err := ask(t.Context(), c, "roots/list", `{"for":"ann."}`, ""); err != nil {
			t.Fatal(err)
		}
		if got, err := ask(t.Context(), plain, "roots/list", `{}`, ""); err != nil || !strings.Contains(got, "-32601") {
			t.Errorf("%s, %v", got, err)
		}
		conns, open := a.of(`"sampling"`)
		if len(conns) != 1 || open != 1 {
			t.Fatalf("%d sessions, %d open", len(conns), open)
		}
		if _, err := c.Do(t.Context(), session.Request{Method: "notifications/roots/list_changed"}); err != nil {
			t.Fatal(err)
		}
		o.eventually("the server learns of roots", func() bool {
			conns[0].mu.Lock()
			defer conns[0].mu.Unlock()
			return conns[0].rootsChanged == 1
		})
		// A broken session is replaced.
		_ = conns[0].out.Close()
		o.eventually("a new session", func() bool {
			got, err := ask(t.Context(), c, "roots/list", `{"for":"ann."}`, "")
			return err == nil && strings.Contains(got, "ann")
		})
		_ = c.Close()
		o.eventually("its sessions end", func() bool { _, open := a.of(`"sampling"`); return open == 0 })
	}
}

// A log level applies to the client that sets it. That client alone gets the messages, before the
// answer of the call that caused them.
func TestLogging(t *testing.T) {
	t.Parallel()
	for _, overHTTP := range []bool{false, true} {
		a, o := newAsking(t)
		ann, messages := o.answering("ann", overHTTP)
		bob, others := o.answering("bob", overHTTP)
		if _, err := ann.Do(t.Context(), session.Request{Method: "logging/setLevel", Params: map[string]json.RawMessage{"level": json.RawMessage(`"debug"`)}}); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{`7`, `"loud"`} {
			if _, err := ann.Do(t.Context(), session.Request{Method: "logging/setLevel", Params: map[string]json.RawMessage{"level": json.RawMessage(wrong)}}); err == nil {
				t.Errorf("%s is a level", wrong)
			}
		}
		for range 20 {
			if _, err := ask(t.Context(), ann, "roots/list", `{"for":"ann."}`, "hello"); err != nil {
				t.Fatal(err)
			}
			if got := messages.take(); len(got) != 1 || got[0] != `{"level":"info","data":"hello"}` {
				t.Errorf("received %q", got)
			}
		}
		if _, err := ask(t.Context(), bob, "roots/list", `{"for":"bob."}`, ""); err != nil {
			t.Fatal(err)
		}
		if got := others.take(); len(got) != 0 {
			t.Errorf("another client received %q", got)
		}
		conns, _ := a.of(`"sampling"`)
		levels := []string{}
		for _, c := range conns {
			c.mu.Lock()
			levels = append(levels, c.level)
			c.mu.Unlock()
		}
		slices.Sort(levels)
		if !slices.Equal(levels, []string{"", "debug"}) {
			t.Errorf("levels %q", levels)
		}
	}
}

// A client that leaves, or cancels, leaves no request behind.
func TestAskedClientLeaves(t *testing.T) {
	t.Parallel()
	for _, cancels := range []bool{false, true} {
		_, o := newAsking(t)
		waiting := make(chan struct{}, 1)
		c := o.clientOf(session.EraLegacy, nil, &session.ClientSide{Capabilities: json.RawMessage(`{"sampling":{}}`),
			Request: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
				waiting <- struct{}{}
				<-ctx.Done() // the gateway cancels
				return nil, context.Cause(ctx)
			}})
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := ask(ctx, c, "sampling/createMessage", `{}`, "")
			failed <- err
		}()
		<-waiting
		if cancels {
			cancel()
		} else {
			_ = c.Close()
		}
		if err := <-failed; err == nil {
			t.Error("the call succeeded")
		}
		cancel()
		_ = c.Close()
	}
}

// Input requests of a modern server become requests to a legacy client.
func TestLegacyClientOfModernServer(t *testing.T) {
	t.Parallel()
	server := sessiontest.New()
	server.Legacy, server.Modern = false, true
	server.SetList("tools", tool("ask"))
	var net sessiontest.Net
	net.Add("docs", server)
	t.Cleanup(net.Wait)
	o := newOutside(t, Options{Dial: net.Dial}, sessiontest.Entry("docs"))
	server.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Result: json.RawMessage(
		`{"resultType":"input_required","requestState":"s1","inputRequests":{"q":{"method":"elicitation/create","params":{"for":"ann.1"}},"r":{"method":"roots/list","params":{"for":"ann.2"}}}}`)})
	for _, overHTTP := range []bool{true, false} {
		c, _ := o.answering("ann", overHTTP)
		raw, err := c.Do(t.Context(), session.Request{Method: "tools/call", Params: map[string]json.RawMessage{"name": json.RawMessage(`"ask"`)}})
		if err != nil || strings.Contains(string(raw), "input_required") {
			t.Fatalf("%s, %v", raw, err)
		}
	}
	wire := server.Wire()
	i := slices.IndexFunc(wire, func(m sessiontest.Message) bool { return strings.Contains(string(m.Params), "inputResponses") })
	if i < 0 {
		t.Fatal("the request was not repeated")
	}
	params := fields(wire[i].Params)
	if string(params["requestState"]) != `"s1"` || string(params["inputResponses"]) != `{"q":{"asked":{"for":"ann.1"},"by":"ann"},"r":{"asked":{"for":"ann.2"},"by":"ann"}}` &&
		string(params["inputResponses"]) != `{"q":{"by":"ann","asked":{"for":"ann.1"}},"r":{"by":"ann","asked":{"for":"ann.2"}}}` {
		t.Errorf("sent %s", wire[i].Params)
	}
	server.Fail(sessiontest.Fault{Method: "tools/call", Result: json.RawMessage(`{"resultType":"input_required","inputRequests":{"q":{"method":"other/ask"}}}`)})
	c, _ := o.answering("ann", true)
	if raw, err := c.Do(t.Context(), session.Request{Method: "tools/call", Params: map[string]json.RawMessage{"name": json.RawMessage(`"ask"`)}}); err == nil || !strings.Contains(err.Error(), "does not support") {
		t.Errorf("%s, %v", raw, err)
	}
}

// The notifications for a slow client are limited in number and bytes, and the oldest are dropped; a large one is
// delivered if no other waits.
func TestNotificationsForASlowClientAreBounded(t *testing.T) {
	t.Parallel()
	_, o := newAsking(t)
	m := &o.gateway.queues
	may, sent, last := make(chan struct{}), 0, -1
	put := func(n, size int) {
		m.put("slow", size, func() {
			<-may
			sent, last = sent+size, n
		})
	}
	for n := range 4 * maxQueued {
		put(n, n%3*(1<<20))
	}
	m.mu.Lock()
	q := m.byKey["slow"]
	if q.bytes > maxQueuedBytes || len(q.waiting) > maxQueued {
		t.Errorf("%d bytes of %d notifications wait", q.bytes, len(q.waiting))
	}
	m.mu.Unlock()
	close(may)
	m.flush(t.Context(), "slow")
	if sent == 0 || sent > maxQueuedBytes || last != 4*maxQueued-1 {
		t.Errorf("%d bytes were sent, the last was %d", sent, last)
	}
	put(0, 2*maxQueuedBytes)
	if m.flush(t.Context(), "slow"); sent < 2*maxQueuedBytes {
		t.Error("the only notification was dropped")
	}
}

// A log level that a client sets while its session with a server is being dialled applies to that
// session.
func TestLogLevelWhileDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		docs := w.Serve("docs", session.EraLegacy)
		docs.SetList(catalog.Tools, tool("dig"))
		docs.Capabilities["logging"] = map[string]any{}
		w.opts.Dial = w.Dial
		w.start(sessiontest.Entry("docs"))
		c := w.client(session.EraLegacy)
		level := func(level string) {
			if _, err := w.do(c, "logging/setLevel", `{"level":"`+level+`"}`); err != nil {
				t.Fatal(err)
			}
		}
		level("info")
		docs.Fail(sessiontest.Fault{Method: "initialize", Times: 1, Delay: 12 * time.Second})
		called := make(chan error, 1)
		go func() {
			_, err := w.do(c, "tools/call", `{"name":"dig"}`)
			called <- err
		}()
		synctest.Wait()
		level("debug")
		if err := <-called; err != nil {
			t.Fatal(err)
		}
		w.advance(time.Second)
		if got := string(w.last("docs", "logging/setLevel")["level"]); got != `"debug"` {
			t.Errorf("the level is %s", got)
		}
	})
}

// dualServer speaks both eras, and announces both if named is set.
func dualServer(named bool) *sessiontest.Fake {
	s := sessiontest.New()
	s.NamesLegacy = named
	s.SetList(catalog.Tools, tool("ask"))
	return s
}

// eraOf returns the era of the last tool call that a server got.
func (w *fixture) eraOf(id string) session.Era {
	w.Helper()
	if strings.Contains(string(w.last(id, "tools/call")["_meta"]), "protocolVersion") {
		return session.EraModern
	}
	return session.EraLegacy
}

// capable connects a legacy client that can be asked something.
func (w *fixture) capable() *session.Session {
	w.Helper()
	return w.clientOf(session.EraLegacy, &session.ClientSide{Capabilities: json.RawMessage(`{"sampling":{}}`)})
}

// A server that speaks both eras serves clients in their own era, whichever era it is tracked in.
func TestServersOfBothEras(t *testing.T) {
	for name, set := range map[string]func(*sessiontest.Fake){
		"tracked in the modern era, announces both": func(s *sessiontest.Fake) { s.NamesLegacy = true },
		"tracked in the legacy era, for pushes":     func(s *sessiontest.Fake) { s.NamesLegacy = true; s.FailAck(sessiontest.AckFault{NoTools: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.opts.Dial = w.Dial
				docs := dualServer(false)
				set(docs)
				w.Add("docs", docs)
				w.start(sessiontest.Entry("docs"))
				w.advance(5 * time.Second)
				modern, legacy := w.client(session.EraModern), w.capable()
				for range 2 {
					if _, err := w.do(modern, "tools/call", `{"name":"ask"}`); err != nil || w.eraOf("docs") != session.EraModern {
						t.Errorf("a modern client is served in the era %s, %v", w.eraOf("docs"), err)
					}
					if _, err := w.do(legacy, "tools/call", `{"name":"ask"}`); err != nil || w.eraOf("docs") != session.EraLegacy {
						t.Errorf("a legacy client is served in the era %s, %v", w.eraOf("docs"), err)
					}
				}
				if got := string(w.last("docs", "initialize")["capabilities"]); got != `{"sampling":{}}` {
					t.Errorf("initialize with %s", got)
				}
				// The server's own errors reach modern clients unchanged.
				docs.Fail(sessiontest.Fault{Method: "tools/call", Code: -32021, Message: "no", Data: map[string]any{"requiredCapabilities": map[string]any{"sampling": map[string]any{}}}})
				_, err := w.do(modern, "tools/call", `{"name":"ask"}`)
				if e, ok := errors.AsType[*session.RPCError](err); !ok || e.Code != -32021 || !strings.Contains(string(e.Data), "sampling") {
					t.Errorf("%v", err)
				}
				dials := len(w.Dialled("docs"))
				for range 3 {
					_, _ = w.do(w.client(session.EraModern), "tools/call", `{"name":"ask"}`)
				}
				if n := len(w.Dialled("docs")); n != dials {
					t.Errorf("%d sessions for three more modern clients", n-dials)
				}
			})
		})
	}
}

// Legacy clients of a server that is tracked in the modern era, and says that it supports both, use one session in
// their own era together.
func TestLegacyClientsTogether(t *testing.T) {
	for name, callers := range map[string]*Callers{"cannot be asked": nil, "with Callers": NewCallers()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.opts.Dial, w.opts.Callers = w.Dial, callers
				w.Add("docs", dualServer(true))
				if callers != nil {
					callers.Serve(map[string]Shared{"docs": {}}, nil)
				}
				w.start(sessiontest.Entry("docs", func(srv *config.Server) {
					srv.Transport, srv.URL = config.TransportHTTP, config.NewSecret("http://docs.example")
				}))
				w.advance(5 * time.Second)
				dials, want := len(w.Dialled("docs")), `{}`
				clients := []*session.Session{w.client(session.EraLegacy), w.client(session.EraLegacy)}
				if callers != nil {
					clients[1], want = w.capable(), `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`
				}
				for _, c := range append(clients, clients...) {
					if _, err := w.do(c, "tools/call", `{"name":"ask"}`); err != nil || w.eraOf("docs") != session.EraLegacy {
						t.Errorf("served in the era %s, %v", w.eraOf("docs"), err)
					}
				}
				if n := len(w.Dialled("docs")) - dials; n != 1 {
					t.Errorf("%d sessions", n)
				}
				if got := string(w.last("docs", "initialize")["capabilities"]); got != want {
					t.Errorf("initialize with %s", got)
				}
			})
		})
	}
}

// In such a session, too, a client that does not read delays only itself.
func TestLegacyClientsTogetherBesideASilentOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.opts.Dial = w.Dial
		docs := dualServer(true)
		w.Add("docs", docs)
		w.start(sessiontest.Entry("docs", func(srv *config.Server) {
			srv.Transport, srv.URL = config.TransportHTTP, config.NewSecret("http://docs.example")
		}))
		w.advance(5 * time.Second)
		silent := &stopping{stop: make(chan struct{}), ended: make(chan struct{})}
		c := w.clientOver(session.EraLegacy, nil, func(r io.ReadCloser) io.ReadCloser {
			silent.ReadCloser = r
			return silent
		})
		other := w.client(session.EraLegacy)
		calls := func(c *session.Session) (over chan struct{}) {
			over = make(chan struct{})
			go func() {
				defer close(over)
				_, _ = w.do(c, "tools/call", `{"name":"ask"}`)
			}()
			synctest.Wait()
			return over
		}
		<-calls(c)
		docs.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Delay: time.Second})
		hangs := calls(c)
		close(silent.stop)
		for range 5 {
			docs.Broadcast(map[string]any{"jsonrpc": "2.0", "method": mcp.NotificationMessage, "params": map[string]any{"level": "info", "data": 1}})
		}
		over := calls(other)
		if !isClosed(over) {
			t.Error("a call waits for a client that does not read")
		}
		close(silent.ended)
		<-hangs
		<-over
	})
}

// If the session that modern clients share breaks, the next request gets a new session.
func TestSharedModernSessionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.opts.Dial = w.Dial
		docs := dualServer(true)
		docs.FailAck(sessiontest.AckFault{NoTools: true})
		w.Add("docs", docs)
		w.start(sessiontest.Entry("docs"))
		w.advance(5 * time.Second)
		c := w.client(session.EraModern)
		for range 2 {
			if raw, err := w.do(c, "tools/call", `{"name":"ask"}`); err != nil || w.eraOf("docs") != session.EraModern {
				t.Fatalf("%s, %v, era %s", raw, err, w.eraOf("docs"))
			}
			docs.Disconnect()
			w.advance(5 * time.Second)
		}
	})
}

// With "shared": false every client has its own session, which ends with the client, even if the
// client declares nothing.
func TestUnsharedServer(t *testing.T) {
	t.Parallel()
	a := &asking{}
	srv := sessiontest.Entry("docs")
	srv.Sharing = config.NotShared
	o := newOutside(t, Options{Dial: a.Dial}, srv)
	open := func() int { _, n := a.of(""); return n }
	was := open() // the tracker's session
	ann, bob := o.over(session.EraLegacy, nil), o.over(session.EraLegacy, nil)
	for range 3 {
		for _, c := range []*session.Session{ann, bob} {
			if got, err := ask(t.Context(), c, "roots/list", `{}`, ""); err != nil || !strings.Contains(got, "-32601") {
				t.Fatalf("%s, %v", got, err)
			}
		}
	}
	if n := open() - was; n != 2 {
		t.Errorf("%d sessions for two clients", n)
	}
	modern := o.over(session.EraModern, nil)
	for range 3 {
		if got, err := o.do(modern, "tools/call", `{"name":"ask","arguments":{"method":"roots/list","params":"{}"}}`, ""); err != nil || !strings.Contains(string(encode(got)), "-32601") {
			t.Fatalf("%s, %v", encode(got), err)
		}
	}
	if n := open() - was; n != 3 {
		t.Errorf("%d sessions for three clients", n)
	}
	// A new entry that waits for approval changes nothing for them.
	srv.Unapproved, srv.Superseded = "approve it", true
	o.apply(srv)
	o.eventually("the tracker knows", func() bool {
		st, _ := o.gateway.tracker.Snapshot().Server("docs")
		return st.StillConnected
	})
	for _, c := range []*session.Session{ann, bob} {
		if _, err := ask(t.Context(), c, "roots/list", `{}`, ""); err != nil {
			t.Fatal(err)
		}
	}
	if conns, n := a.of(""); n-was != 3 || len(conns)-was != 3 {
		t.Errorf("%d sessions, %d open, while an entry waits for approval", len(conns)-was, n-was)
	}
	_, _ = ann.Close(), bob.Close()
	o.eventually("their sessions end", func() bool { return open()-was == 1 })
}
