package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

const modernCapabilities = `{"sampling":{},"elicitation":{"form":{}},"roots":{}}`

// asks calls the tool that makes the server ask, as a modern client.
func asks(ctx context.Context, c *session.Session, method, params string, more map[string]any) (map[string]json.RawMessage, error) {
	arguments, _ := json.Marshal(map[string]string{"method": method, "params": params, "log": "said"})
	p := map[string]json.RawMessage{"name": json.RawMessage(`"ask"`), "arguments": arguments}
	for name, value := range more {
		p[name] = encode(value)
	}
	raw, err := c.Do(ctx, session.Request{Method: "tools/call", Params: p, Client: json.RawMessage(modernCapabilities)})
	return fields(raw), err
}

// If a legacy server asks during a request of a modern client, the result requires input, and the
// repeated request answers it. Concurrent clients get only their own input requests.
func TestModernClientOfLegacyServer(t *testing.T) {
	t.Parallel()
	rounds := 100
	if testing.Short() {
		rounds = 6
	}
	a, o := newAsking(t)
	var all sync.WaitGroup
	for i, name := range []string{"ann", "bob", "cat", "dan"} {
		var c *session.Session
		if i%2 == 0 {
			c = o.over(session.EraModern, nil)
		} else {
			c = o.client(session.EraModern, map[string]config.Secret{"Authorization": config.NewSecret("Bearer " + name)})
		}
		all.Go(func() {
			for n := range rounds {
				method := []string{"sampling/createMessage", "elicitation/create", "roots/list"}[n%3]
				params := fmt.Sprintf(`{"for":"%s.%d"}`, name, n)
				asked, err := asks(t.Context(), c, method, params, nil)
				if want := `{"q1":{"method":"` + method + `","params":` + params + `}}`; err != nil || string(asked["inputRequests"]) != want && !sameRound(asked["inputRequests"], method, params) {
					t.Errorf("%s was asked %s, %v", name, asked["inputRequests"], err)
					return
				}
				key := rawjson.Members(asked["inputRequests"])[0].Name
				got, err := asks(t.Context(), c, method, params, map[string]any{"requestState": asked["requestState"],
					"inputResponses": map[string]any{key: map[string]any{"by": name, "n": n}}})
				if err != nil || string(got["structuredContent"]) != fmt.Sprintf(`{"by":"%s","n":%d}`, name, n) {
					t.Errorf("%s: %s, %v", name, encode(got), err)
					return
				}
			}
		})
	}
	all.Wait()
	if conns, _ := a.of(`"sampling"`); len(conns) > 4 {
		t.Errorf("%d sessions for 4 clients", len(conns))
	}
}

func sameRound(asked json.RawMessage, method, params string) bool {
	m := rawjson.Members(asked)
	return len(m) == 1 && string(fields(m[0].Value)["method"]) == `"`+method+`"` && string(fields(m[0].Value)["params"]) == params
}

// A state is valid for one request of the client that got it. Unanswered input requests are sent
// again. If the client leaves, the request at the server ends.
func TestInputRounds(t *testing.T) {
	t.Parallel()
	a, o := newAsking(t)
	ann := o.client(session.EraModern, map[string]config.Secret{"Authorization": config.NewSecret("Bearer ann")})
	bob := o.client(session.EraModern, map[string]config.Secret{"Authorization": config.NewSecret("Bearer bob")})
	const method, params = "elicitation/create", `{"for":"ann.1"}`
	asked, err := asks(t.Context(), ann, method, params, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string]any{"requestState": asked["requestState"], "inputResponses": map[string]any{"q1": map[string]any{"action": "accept"}}}
	if got, err := asks(t.Context(), bob, method, params, answer); err == nil || !strings.Contains(err.Error(), "requestState") {
		t.Errorf("another client: %s, %v", encode(got), err)
	}
	if got, err := asks(t.Context(), ann, method, `{"for":"ann.2"}`, answer); err == nil || !strings.Contains(err.Error(), "requestState") {
		t.Errorf("another request: %s, %v", encode(got), err)
	}
	again, err := asks(t.Context(), ann, method, params, map[string]any{"requestState": asked["requestState"], "inputResponses": map[string]any{"other": map[string]any{}, "q1": "text"}})
	if err != nil || string(again["inputRequests"]) != string(asked["inputRequests"]) || string(again["requestState"]) == string(asked["requestState"]) {
		t.Fatalf("without an answer: %s, %v", encode(again), err)
	}
	if got, err := asks(t.Context(), ann, method, params, answer); err == nil {
		t.Errorf("the same state twice: %s", encode(got))
	}
	answer["requestState"] = again["requestState"]
	if got, err := asks(t.Context(), ann, method, params, answer); err != nil || string(got["structuredContent"]) != `{"action":"accept"}` {
		t.Errorf("%s, %v", encode(got), err)
	}
	// The gateway rejects requests for capabilities that the client did not declare.
	if got, err := asks(t.Context(), ann, "experimental/x", params, nil); err != nil || !strings.Contains(string(got["structuredContent"]), "-32601") {
		t.Errorf("%s, %v", encode(got), err)
	}
	// The client leaves instead of answering. Its session ends: the server may still be working.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := asks(ctx, ann, method, params, nil); err != nil {
		t.Fatal(err)
	}
	cancel()
	o.gateway.inputs.mu.Lock()
	for _, w := range o.gateway.inputs.byState {
		w.expire.Reset(0) // as after inputTimeout
	}
	o.gateway.inputs.mu.Unlock()
	o.eventually("the request is given up", func() bool {
		o.gateway.sessions.mu.Lock()
		defer o.gateway.sessions.mu.Unlock()
		return o.gateway.sessions.total.All() == 0
	})
	o.eventually("its session ends", func() bool {
		_, open := a.of(`"sampling"`)
		return open == 0
	})
}

// A server that ends or restarts while a client considers an input request fails that request and
// no other: the client gets an error instead of waiting, and its next request works.
func TestServerEndsWhileItAsks(t *testing.T) {
	t.Parallel()
	a, o := newAsking(t)
	modern := o.over(session.EraModern, nil)
	asked, err := asks(t.Context(), modern, "elicitation/create", `{"for":"x"}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	conns, _ := a.of(`"elicitation"`)
	_ = conns[0].out.Close()
	answer := map[string]any{"requestState": asked["requestState"], "inputResponses": map[string]any{"q1": map[string]any{"action": "accept"}}}
	if got, err := asks(t.Context(), modern, "elicitation/create", `{"for":"x"}`, answer); err == nil {
		t.Errorf("%s", encode(got))
	}
	if asked, err = asks(t.Context(), modern, "elicitation/create", `{"for":"x"}`, nil); err != nil || asked["inputRequests"] == nil {
		t.Errorf("%s, %v", encode(asked), err)
	}

	thinking := make(chan struct{}, 1)
	legacy := o.over(session.EraLegacy, &session.ClientSide{Capabilities: json.RawMessage(`{"elicitation":{},"sampling":{"x":{}}}`),
		Request: func(ctx context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
			if strings.Contains(string(params), "quick") {
				return json.RawMessage(`{"action":"accept"}`), nil
			}
			thinking <- struct{}{}
			<-ctx.Done() // the input request is withdrawn
			return nil, context.Cause(ctx)
		}})
	failed := make(chan error, 1)
	go func() {
		_, err := ask(t.Context(), legacy, "elicitation/create", `{"for":"x"}`, "")
		failed <- err
	}()
	<-thinking
	conns, _ = a.of(`"x"`)
	_ = conns[0].out.Close()
	if err := <-failed; err == nil {
		t.Error("a call of a server that ended succeeded")
	}
	if got, err := ask(t.Context(), legacy, "elicitation/create", `{"for":"quick"}`, ""); err != nil || !strings.Contains(got, "accept") {
		t.Errorf("%s, %v", got, err)
	}
}

// The state that a hostile server can make the gateway keep is bounded.
func TestInputRoundIsBounded(t *testing.T) {
	d := &inputRound{capabilities: json.RawMessage(`{"elicitation":{}}`), opened: make(chan struct{}, 1)}
	large := json.RawMessage(`{"message":"` + strings.Repeat("x", maxInputBytes/2) + `"}`)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := d.request(ctx, "elicitation/create", large)
		first <- err
	}()
	<-d.opened
	if _, err := d.request(ctx, "elicitation/create", large); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("the second: %v", err)
	}
	cancel()
	if err := <-first; err == nil || !d.settled() {
		t.Errorf("the first: %v", err)
	}
}

// Between a modern client and a modern server, capabilities go up, a request for input comes
// down, and the repeated request carries the answers.
func TestInputRequired(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", session.EraModern)
		w.Serve("more", session.EraModern)
		docs.SetList(catalog.Tools, tool("ask"))
		w.start(sessiontest.Entry("docs"), sessiontest.Entry("more"))
		const asked = `{"resultType":"input_required","requestState":"s1","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"who?"}}}}`
		docs.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Result: json.RawMessage(asked)})
		c := w.client(era)
		call := session.Request{Method: "tools/call", Params: map[string]json.RawMessage{"name": json.RawMessage(`"docs_ask"`)}, Client: json.RawMessage(`{"elicitation":{"form":{}}}`)}
		raw, err := c.Do(w.Context(), call)
		if era == session.EraLegacy {
			if err == nil || !strings.Contains(err.Error(), "input") {
				w.Errorf("%s, %v", raw, err)
			}
			if meta := string(w.last("docs", "tools/call")["_meta"]); !strings.Contains(meta, `"io.modelcontextprotocol/clientCapabilities":{}`) {
				w.Errorf("the server saw %s", meta)
			}
			return
		}
		if err != nil || !strings.Contains(string(raw), `"requestState":"s1"`) || !strings.Contains(string(raw), "who?") || strings.Contains(string(raw), "ttlMs") {
			w.Fatalf("%s, %v", raw, err)
		}
		if meta := string(w.last("docs", "tools/call")["_meta"]); !strings.Contains(meta, `"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}`) {
			w.Errorf("the server saw %s", meta)
		}
		call.Params["requestState"], call.Params["inputResponses"] = json.RawMessage(`"s1"`), json.RawMessage(`{"q":{"action":"accept"}}`)
		if raw, err := c.Do(w.Context(), call); err != nil || !strings.Contains(string(raw), `"resultType":"complete"`) {
			w.Errorf("%s, %v", raw, err)
		}
		again := w.last("docs", "tools/call")
		if string(again["requestState"]) != `"s1"` || string(again["inputResponses"]) != `{"q":{"action":"accept"}}` || string(again["name"]) != `"ask"` {
			w.Errorf("the server saw %v", again)
		}
	})
}
