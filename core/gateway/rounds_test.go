package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

const modernCapabilities = `{"sampling":{},"elicitation":{"form":{}},"roots":{}}`

// asks calls the tool that makes the server ask, for a client of the modern era.
func asks(ctx context.Context, c *session.Session, method, params string, more map[string]any) (map[string]json.RawMessage, error) {
	arguments, _ := json.Marshal(map[string]string{"method": method, "params": params, "log": "said"})
	p := map[string]json.RawMessage{"name": json.RawMessage(`"ask"`), "arguments": arguments}
	for name, value := range more {
		p[name] = encode(value)
	}
	raw, err := c.Do(ctx, session.Request{Method: "tools/call", Params: p, Client: json.RawMessage(modernCapabilities)})
	return fields(raw), err
}

// What a legacy server asks during the request of a modern client is a result that requires
// input; the repeated request answers it. Clients at the same time get only their own.
func TestModernClientOfLegacyServer(t *testing.T) {
	t.Parallel()
	rounds := 100
	if testing.Short() {
		rounds = 10
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
				key := readMembers(asked["inputRequests"])[0].name
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
	m := readMembers(asked)
	return len(m) == 1 && string(fields(m[0].value)["method"]) == `"`+method+`"` && string(fields(m[0].value)["params"]) == params
}

// A state is good for one request of the client that got it; what is not answered is asked
// again; a client that leaves ends the request at the server.
func TestRounds(t *testing.T) {
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
	// What the client did not declare is refused by the gateway.
	if got, err := asks(t.Context(), ann, "experimental/x", params, nil); err != nil || !strings.Contains(string(got["structuredContent"]), "-32601") {
		t.Errorf("%s, %v", encode(got), err)
	}
	// The client leaves instead of answering. Its session ends: the server may go on.
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := asks(ctx, ann, method, params, nil); err != nil {
		t.Fatal(err)
	}
	cancel()
	o.gateway.inputs.mu.Lock()
	for _, w := range o.gateway.inputs.byState {
		w.expire.Reset(0) // as after roundPatience
	}
	o.gateway.inputs.mu.Unlock()
	o.eventually("the request is given up", func() bool {
		o.gateway.sessions.mu.Lock()
		defer o.gateway.sessions.mu.Unlock()
		return o.gateway.sessions.total.All() == 0
	})
	if conns, open := a.of(`"sampling"`); open > 0 {
		t.Errorf("%d sessions, %d open", len(conns), open)
	}
}
