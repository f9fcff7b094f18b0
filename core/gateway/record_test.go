package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// record collects the calls of a gateway.
type record struct {
	mu  sync.Mutex
	all []calls.Call
}

func (r *record) called(c calls.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, c)
}

// take returns the calls since the last take.
func (r *record) take() []calls.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// Every call is recorded once, with how it ended, whether a server answered or the gateway did.
func TestCallsAreRecorded(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		r := new(record)
		w.opts.Called, w.opts.Deny = r.called, []string{"a_bury"}
		w.opts.Alias = func(id string) string { return strings.TrimSuffix(id, "~1") }
		a, b := w.Serve("a~1", era), w.Serve("b~1", era)
		a.SetList(catalog.Tools, tool("dig"), tool("bury"))
		b.SetList(catalog.Tools, tool("dig"))
		w.start(sessiontest.Entry("a~1"), sessiontest.Entry("b~1"))
		c, other := w.client(era), w.client(era)
		call := func(c *session.Session, name string) calls.Call {
			w.Helper()
			_, _ = w.do(c, "tools/call", `{"name":"`+name+`","arguments":{"secret":"x"}}`)
			synctest.Wait()
			all := r.take()
			if len(all) != 1 {
				w.Fatalf("%s: %+v", name, all)
			}
			return all[0]
		}
		ok := call(c, "a_dig")
		if ok.Client != "mcptrack" || len(ok.Session) != 8 || ok.ServerID != "a" || ok.Tool != "dig" || ok.Outcome != calls.OK || ok.Code != 0 || ok.Bytes < 10 {
			w.Errorf("%+v", ok)
		}
		if again, elsewhere := call(c, "b_dig"), call(other, "a_dig"); again.Session != ok.Session || again.ServerID != "b" || elsewhere.Session == ok.Session {
			w.Errorf("%+v and %+v", again, elsewhere)
		}
		a.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Result: map[string]any{"isError": true, "content": []any{}}})
		if got := call(c, "a_dig"); got.Outcome != calls.ToolError || got.Code != 0 || got.Bytes == 0 {
			w.Errorf("isError: %+v", got)
		}
		a.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Result: map[string]any{"isError": false, "structuredContent": map[string]any{"isError": true}, "content": []any{}}})
		if got := call(c, "a_dig"); got.Outcome != calls.OK {
			w.Errorf("an isError within the result: %+v", got)
		}
		a.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Code: -32042, Message: "no"})
		if got := call(c, "a_dig"); got.Outcome != calls.Error || got.Code != -32042 || got.Bytes != 0 || got.ServerID != "a" {
			w.Errorf("an error: %+v", got)
		}
		for _, name := range []string{"a_bury", "what\x1bever"} {
			if got := call(c, strings.ReplaceAll(name, "\x1b", `\u001b`)); got.Outcome != calls.Error || got.Code != mcp.CodeInvalidParams || got.ServerID != "" || strings.Contains(got.Tool, "\x1b") {
				w.Errorf("%q: %+v", name, got)
			}
		}
	})
}

// The calls of several clients at the same time add up.
func TestConcurrentCallsAddUp(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		r := new(record)
		w.opts.Called = r.called
		a := w.Serve("a", era)
		a.SetList(catalog.Tools, tool("dig"))
		w.start(sessiontest.Entry("a"))
		const clients, each = 10, 20
		var running sync.WaitGroup
		for range clients {
			c := w.client(era)
			for i := range each {
				running.Go(func() {
					name := "dig"
					if i%4 == 0 {
						name = "nothing"
					}
					_, _ = w.do(c, "tools/call", `{"name":"`+name+`"}`)
				})
			}
		}
		running.Wait()
		n := map[string]map[calls.Outcome]int{}
		for _, c := range r.take() {
			if n[c.Session] == nil {
				n[c.Session] = map[calls.Outcome]int{}
			}
			n[c.Session][c.Outcome]++
		}
		if len(n) != clients {
			w.Errorf("%d sessions", len(n))
		}
		for session, outcomes := range n {
			if outcomes[calls.OK] != each*3/4 || outcomes[calls.Error] != each/4 {
				w.Errorf("%s: %v", session, outcomes)
			}
		}
	})
}

// A call that asks a modern client for input is recorded when it is finally answered.
func TestCallWithInputIsRecordedOnce(t *testing.T) {
	t.Parallel()
	a, r := &asking{}, new(record)
	o := newOutside(t, Options{Dial: a.Dial, Called: r.called}, sessiontest.Entry("docs"))
	c := o.over(session.EraModern, nil)
	asked, err := asks(t.Context(), c, "roots/list", `{}`, nil)
	if err != nil || asked["inputRequests"] == nil {
		t.Fatalf("%s, %v", asked, err)
	}
	if early := r.take(); len(early) != 0 {
		t.Errorf("%+v", early)
	}
	key := rawjson.Members(asked["inputRequests"])[0].Name
	if _, err := asks(t.Context(), c, "roots/list", `{}`, map[string]any{"requestState": asked["requestState"], "inputResponses": map[string]any{key: map[string]any{"by": "x"}}}); err != nil {
		t.Fatal(err)
	}
	if all := r.take(); len(all) != 1 || all[0].Outcome != calls.OK || all[0].Tool != "ask" || all[0].Session == "" {
		t.Errorf("%+v", all)
	}
}

// BenchmarkRecorded reports what the record adds to a call: compare with Func.
func BenchmarkRecorded(b *testing.B) {
	for _, on := range []bool{false, true} {
		name, opts := "Func", Options{}
		if on {
			var m calls.Memory
			name, opts.Called = "recorded", m.Add
		}
		b.Run(name, func(b *testing.B) {
			benchRecorded(b, opts)
		})
	}
}

func benchRecorded(b *testing.B, opts Options) {
	g, err := New(opts)
	if err != nil {
		b.Fatal(err)
	}
	result := json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 4000) + `"}],"isError":false}`)
	f := g.recorded(func(context.Context, *mcpserver.Request) (json.RawMessage, error) { return result, nil })
	r := &mcpserver.Request{Method: mcp.MethodCallTool}
	for b.Loop() {
		if _, err := f(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
