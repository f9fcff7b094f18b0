package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// capableWorld is a gateway over the server "docs", which sessions that declare sampling see as
// the server "more".
type capableWorld struct {
	*fixture
	docs, more     *sessiontest.Fake
	plain, capable *session.Session
	changes        map[*session.Session]int // how often each client was notified of changed tools
	probed         func()                   // called for each probe; may be nil
}

func inCapableWorld(t *testing.T, test func(w *capableWorld)) {
	t.Helper()
	inCapableWorldWith(t, func(*capableWorld) {}, test)
}

// inCapableWorldWith calls before when the servers list their tools, and the gateway has not started.
func inCapableWorldWith(t *testing.T, before, test func(w *capableWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &capableWorld{fixture: newFixture(t), changes: map[*session.Session]int{}}
		w.docs, w.more = w.Serve("docs", session.EraLegacy), w.Serve("more", session.EraLegacy)
		w.opts.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
			if opts.Client != nil && strings.Contains(string(opts.Client.Capabilities), "sampling") {
				if opts.OneShot && w.probed != nil {
					w.probed()
				}
				srv.ID, srv.Command = "more", "more"
			}
			return w.Dial(ctx, srv, opts)
		}
		w.tools([]string{"one"}, []string{"one", "sample"})
		before(w)
		w.start(sessiontest.Entry("docs"))
		w.plain, w.capable = w.client(session.EraLegacy), w.capableClient(`{"sampling":{}}`)
		w.wantKeys(w.plain, catalog.Tools, "one")
		w.wantKeys(w.capable, catalog.Tools, "one", "sample")
		w.subscribe(w.plain)
		w.subscribe(w.capable)
		w.advance(2 * time.Minute)
		test(w)
	})
}

// capableClient connects a client that declares the capabilities.
func (w *capableWorld) capableClient(capabilities string) *session.Session {
	w.Helper()
	return w.clientOf(session.EraLegacy, &session.ClientSide{Capabilities: json.RawMessage(capabilities),
		Request: func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, notFound() }})
}

// tools sets what both kinds of sessions list.
func (w *capableWorld) tools(plain, capable []string) {
	for s, names := range map[*sessiontest.Fake][]string{w.docs: plain, w.more: capable} {
		var all []any
		for _, name := range names {
			all = append(all, tool(name))
		}
		s.SetList(catalog.Tools, all...)
	}
}

// change is like tools, and announces the change.
func (w *capableWorld) change(plain, capable []string) {
	w.tools(plain, capable)
	w.docs.NotifyListChanged(catalog.Tools)
	w.more.NotifyListChanged(catalog.Tools)
}

// watch lists the tools whenever a client is notified that they changed, for a duration, and
// passes them to notified.
func (w *capableWorld) watch(d time.Duration, notified func(c *session.Session, tools string)) {
	w.Helper()
	const step = 20 * time.Millisecond
	for range d / step {
		w.advance(step)
		for _, c := range []*session.Session{w.plain, w.capable} {
			if received(c) == "tools" {
				w.changes[c]++
				notified(c, w.keys(c, catalog.Tools))
			}
		}
	}
}

// wantChange changes the server, and checks that every client is notified once, within a second,
// and gets the new list then and later.
func (w *capableWorld) wantChange(plain, capable []string) {
	w.Helper()
	clear(w.changes)
	w.change(plain, capable)
	slices.Sort(plain)
	slices.Sort(capable)
	want := map[*session.Session]string{w.plain: strings.Join(plain, " "), w.capable: strings.Join(capable, " ")}
	notified := func(c *session.Session, tools string) {
		if tools != want[c] {
			w.Errorf("notified, then %q, want %q", tools, want[c])
		}
	}
	w.watch(time.Second, notified)
	for c, tools := range want {
		w.wantKeys(c, catalog.Tools, strings.Fields(tools)...)
		if w.changes[c] != 1 {
			w.Errorf("notified %d times within a second", w.changes[c])
		}
		for name := range strings.FieldsSeq(tools) {
			if got, err := w.do(c, "tools/call", `{"name":"`+name+`"}`); err != nil && strings.Contains(err.Error(), "unknown tool") {
				w.Errorf("%s: %s, %v", name, got, err)
			}
		}
	}
	w.watch(time.Minute, notified)
	if w.changes[w.plain] != 1 || w.changes[w.capable] != 1 {
		w.Errorf("notified %v times", w.changes)
	}
	if got, err := w.do(w.capable, "tools/call", `{"name":"no"}`); err == nil || !strings.Contains(err.Error(), "unknown tool") {
		w.Errorf("%s, %v", got, err)
	}
}

// A change of a server is served to all clients in one step, even if some of them see more.
func TestCapableClientsSeeChanges(t *testing.T) {
	inCapableWorld(t, func(w *capableWorld) {
		w.wantChange([]string{"one", "two"}, []string{"one", "two", "sample"})
		w.wantChange([]string{"two"}, []string{"two", "sample"})
		w.wantChange([]string{"three"}, []string{"three", "sample"})
		w.wantChange([]string{}, []string{"sample"})
		w.wantChange([]string{"one"}, []string{"one", "sample"})
		for n := range 5 { // in quick succession
			name := fmt.Sprint("n", n)
			w.change([]string{name}, []string{name, "sample"})
			w.watch(300*time.Millisecond, func(*session.Session, string) {
				w.wantKeys(w.capable, catalog.Tools, w.keys(w.plain, catalog.Tools), "sample")
			})
		}
	})
}

// A client is not notified of items that only others see: neither when these items change, nor
// when the first of the others connects, nor when the variant has been idle for long.
func TestUnaffectedClientsAreNotNotified(t *testing.T) {
	inCapableWorld(t, func(w *capableWorld) {
		w.change([]string{"two"}, []string{"two", "other"}) // the variant changes a moment later
		w.watch(time.Minute, func(*session.Session, string) {})
		w.wantKeys(w.capable, catalog.Tools, "other", "two")
		if w.changes[w.plain] != 1 || w.changes[w.capable] == 0 {
			t.Errorf("notified %d times, capable %d times", w.changes[w.plain], w.changes[w.capable])
		}

		untold := func(what string, clients ...*session.Session) {
			t.Helper()
			for i, c := range clients {
				if got := received(c); got != "" {
					t.Errorf("%s: client %d was notified of %s", what, i, got)
				}
			}
		}
		newcomer := w.capableClient(`{"sampling":{},"roots":{}}`)
		w.subscribe(newcomer)
		w.wantKeys(newcomer, catalog.Tools, "other", "two")
		w.advance(time.Minute)
		untold("another kind of client has listed", w.plain, w.capable, newcomer)
		w.advance(3 * maxIdleVariant)
		untold("nobody has listed anything for long", w.plain, w.capable, newcomer)
		w.change([]string{"three"}, []string{"three", "other"})
		w.advance(time.Minute)
		for i, c := range []*session.Session{w.plain, w.capable, newcomer} {
			if got := received(c); got != "tools" {
				t.Errorf("client %d was notified of %q after a change", i, got)
			}
		}
		w.wantKeys(newcomer, catalog.Tools, "other", "three")

		_ = newcomer.Close()
		w.advance(2 * maxIdleVariant)
		w.gateway.variants.mu.Lock()
		defer w.gateway.variants.mu.Unlock()
		if n := len(w.gateway.variants.byKey); n != 1 {
			t.Errorf("%d kinds of clients are remembered", n)
		}
	})
}

// A change during a probe is visible, at whatever moment it happens.
func TestChangeDuringProbe(t *testing.T) {
	for _, at := range []time.Duration{0, 150, 299, 301} {
		t.Run(fmt.Sprint(int(at)), func(t *testing.T) {
			inCapableWorld(t, func(w *capableWorld) {
				for _, old := range []bool{false, true} {
					w.tools([]string{"one", "gone"}, []string{"one", "gone", "sample"})
					w.docs.NotifyListChanged(catalog.Tools)
					w.advance(5 * time.Minute)
					w.more.Fail(sessiontest.Fault{Method: "tools/list", Delay: 300 * time.Millisecond, Old: old})
					w.tools([]string{"gone"}, []string{"gone", "sample"})
					w.docs.NotifyListChanged(catalog.Tools) // a probe begins
					w.advance(at * time.Millisecond)
					w.change([]string{"new"}, []string{"new", "sample"})
					w.advance(time.Second)
					for range 20 {
						w.wantKeys(w.plain, catalog.Tools, "new")
						w.wantKeys(w.capable, catalog.Tools, "new", "sample")
						w.advance(5 * time.Second)
					}
					w.more.Heal()
				}
			})
		})
	}
}

// A modern server's lists can also depend on the capabilities of a request.
func TestCapableClientsOfAModernServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &capableWorld{fixture: newFixture(t), changes: map[*session.Session]int{}}
		w.docs, w.opts.Dial = w.Serve("docs", session.EraModern), w.Dial
		w.start(sessiontest.Entry("docs"))
		w.plain, w.capable = w.client(session.EraLegacy), w.capableClient(`{"sampling":{}}`)
		for _, name := range []string{"one", "two", "three"} {
			w.docs.SetList(catalog.Tools, tool(name))
			w.docs.SetListForCapable(catalog.Tools, tool("for"+name))
			w.docs.NotifyListChanged(catalog.Tools)
			w.advance(2 * time.Second)
			w.wantKeys(w.plain, catalog.Tools, name)
			w.wantKeys(w.capable, catalog.Tools, "for"+name, name)
		}
	})
}

// A server whose list differs in every probe, or changes with every session, is not probed
// endlessly, and constant changes are nevertheless served.
func TestProbesAreBounded(t *testing.T) {
	probes := 0
	inCapableWorld(t, func(w *capableWorld) {
		w.probed = func() { // both lists change with each probe
			probes++
			w.change([]string{fmt.Sprint("after", probes)}, []string{fmt.Sprint("after", probes), fmt.Sprint("sample", probes)})
		}
		w.change([]string{"begin"}, []string{"begin", "sample"})
		w.advance(10 * time.Minute)
		if probes < 10 || probes > 145 {
			t.Errorf("%d probes in 10 min", probes)
		}
		w.wantKeys(w.plain, catalog.Tools, fmt.Sprint("after", probes))
	})
	probes = 0
	inCapableWorld(t, func(w *capableWorld) {
		w.probed = func() { probes++ }
		for n := range 150 { // the list changes constantly
			name := fmt.Sprint("n", n)
			w.change([]string{name}, []string{name, "sample"})
			w.advance(4 * time.Second)
			w.wantKeys(w.capable, catalog.Tools, name, "sample")
		}
		if probes < 10 || probes > 145 {
			t.Errorf("%d probes in 10 min of changes", probes)
		}
	})
}

// A server that lists some tools only for clients that can be asked something lists all tools for
// them, and they can call them; other clients see the other tools. A client that is asked for a
// task runs it.
func TestRealToolsOfCapableClients(t *testing.T) {
	t.Parallel()
	o := newOutside(t, Options{}, everything(t), modernTaskServer(t, "tasks"))
	var mu sync.Mutex
	polled := 0
	capable := o.over(session.EraLegacy, &session.ClientSide{
		Capabilities: json.RawMessage(`{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"tasks":{"cancel":{},"list":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}}`),
		Request: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			const answer = `"role":"assistant","model":"m","content":{"type":"text","text":"from the client"}`
			switch method {
			case "roots/list":
				return json.RawMessage(`{"roots":[{"uri":"file:///of/the/client","name":"here"}]}`), nil
			case "sampling/createMessage":
				if fields(params)["task"] == nil {
					return json.RawMessage(`{` + answer + `}`), nil
				}
				return json.RawMessage(`{"task":{"taskId":"c1","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"pollInterval":50}}`), nil
			case "tasks/get":
				status := "working"
				if polled++; polled > 1 {
					status = "completed"
				}
				return json.RawMessage(`{"taskId":"c1","status":"` + status + `","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttl":60000,"pollInterval":50}`), nil
			case "tasks/result":
				return json.RawMessage(`{` + answer + `,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"c1"}}}`), nil
			}
			return nil, &session.RPCError{Code: -32601, Message: "not " + method}
		},
	})
	names := func(c *session.Session) string {
		list, err := c.List(t.Context(), "tools")
		if err != nil {
			t.Fatal(err)
		}
		return " " + strings.Join(list.Keys(), " ") + " "
	}
	plain := names(o.over(session.EraLegacy, nil))
	var all string
	o.eventually("the tools for capable clients", func() bool { // a slow machine lists the common tools first
		all = names(capable)
		return strings.Contains(all, "everything_trigger-sampling-request")
	})
	for _, tool := range []string{"trigger-sampling-request", "trigger-elicitation-request", "get-roots-list", "trigger-sampling-request-async"} {
		if tool := " everything_" + tool + " "; strings.Contains(plain, tool) || !strings.Contains(all, tool) {
			t.Errorf("%s: plain %s, all %s", tool, plain, all)
		}
	}
	for tool, want := range map[string]string{"get-roots-list": "of/the/client", "trigger-sampling-request": "from the client", "trigger-sampling-request-async": "from the client"} {
		got, err := o.do(capable, "tools/call", `{"name":"everything_`+tool+`","arguments":{"prompt":"p","maxTokens":10}}`, "")
		if err != nil || !strings.Contains(string(encode(got)), want) {
			t.Errorf("%s: %s, %v", tool, encode(got), err)
		}
	}
	// A modern client also sees them.
	modern := o.over(session.EraModern, nil)
	o.eventually("the tools for a capable modern client", func() bool { // as above
		got, err := o.do(modern, "tools/list", `{}`, `{"sampling":{},"elicitation":{},"roots":{}}`)
		return err == nil && strings.Contains(string(got["tools"]), "everything_trigger-sampling-request")
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
