package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A server that shows tools only to clients that can be asked something shows all to them,
// and they can call them; other clients see the others. What the server wants from a
// client as a task is done by that client.
func TestToolsOfCapableClients(t *testing.T) {
	t.Parallel()
	o := newOutside(t, Options{}, everything(t), modernPeer(t, "tasks"))
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
	all := names(capable)
	for deadline := time.Now().Add(2 * time.Minute); !strings.Contains(all, "everything_trigger-sampling-request") && time.Now().Before(deadline); all = names(capable) {
		time.Sleep(time.Second) // a slow machine lists the common ones first
	}
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
	// A client of the modern era sees them, too.
	modern := o.over(session.EraModern, nil)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) { // as above
		got, err := o.do(modern, "tools/list", `{}`, `{"sampling":{},"elicitation":{},"roots":{}}`)
		if err == nil && strings.Contains(string(got["tools"]), "everything_trigger-sampling-request") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s, %v", got["tools"], err)
		}
	}
}

// A server that could not be listed for capable clients is listed again, though nothing of it
// has changed; until then they see what all clients see.
func TestProbeIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failures atomic.Int32
		a := &asking{refuse: func(capabilities string) bool {
			return strings.Contains(capabilities, "sampling") && failures.Add(1) <= 2
		}}
		o := newOutside(t, Options{Dial: a.Dial}, sessiontest.Entry("docs"))
		c, _ := o.answering("ann", false)
		tools := func() int {
			list, err := c.List(t.Context(), catalog.Tools)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		if n := tools(); n != 1 {
			t.Errorf("%d tools while the server cannot be listed", n)
		}
		time.Sleep(4 * probeRetry) // the second attempt, which fails, and the third
		if n := tools(); n != 2 || failures.Load() < 3 {
			t.Errorf("%d tools after %d attempts", n, failures.Load())
		}
	})
}

// With "shared": false every client has a session of its own, which ends with the client;
// so has one that declares nothing.
func TestUnsharedServer(t *testing.T) {
	t.Parallel()
	a := &asking{}
	srv := sessiontest.Entry("docs")
	srv.Unshared = true
	o := newOutside(t, Options{Dial: a.Dial}, srv)
	open := func() int { _, n := a.of(""); return n }
	was := open() // that of the tracker
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
	// An entry that waits for approval while this one goes on changes nothing for them.
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
