package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// A server that ends or restarts while a client thinks about a question fails that request
// and no other: the client gets an error instead of waiting, and its next request works.
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
			<-ctx.Done() // the question is withdrawn
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

// What a hostile server makes the gateway keep is bounded.
func TestRoundIsBounded(t *testing.T) {
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

func TestTaskIDsAreBounded(t *testing.T) {
	g := &Gateway{}
	r := &mcpserver.Request{Principal: "p"}
	for _, id := range []string{"short", strings.Repeat("x", maxTaskID+1)} {
		g.tasks.add(target{"a", id}, r, nil, nil)
	}
	for range maxTasks {
		g.tasks.add(target{"a", "more"}, r, nil, nil)
	}
	if len(g.tasks.byID) != 2 || len(g.tasks.order) != 2 {
		t.Errorf("%d tasks, %d in order", len(g.tasks.byID), len(g.tasks.order))
	}
	if _, ok := g.tasks.find(target{"a", "short"}, &mcpserver.Request{Principal: "q"}); ok {
		t.Error("a client with other credentials found the task")
	}
}

// Capabilities make a difference as far as servers are known to look at them, no further:
// clients cannot make ever new lists.
func TestCapabilityKeys(t *testing.T) {
	for capabilities, want := range map[string]string{
		``: "", `{}`: "", `{"experimental":{"x":{}}}`: "", `{"tasks":{"requests":{}}}`: "",
		`{"roots":{"listChanged":true},"sampling":{}}`:           "roots sampling",
		`{"roots":{},"sampling":{"tools":{},"y":{}}}`:            "roots sampling sampling.tools",
		`{"elicitation":{"form":{},"url":{},"z":{}},"x":1}`:      "elicitation elicitation.form elicitation.url",
		`{"sampling":{},"tasks":{"list":{},"requests":{"a":1}}}`: "sampling tasks",
	} {
		if got := keyOf(json.RawMessage(capabilities)); got != want {
			t.Errorf("%s: %q", capabilities, got)
		}
	}
}
