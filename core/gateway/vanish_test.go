package gateway

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// Clients of both eras that cancel or leave at any moment, even while they are asked, leave no
// session, input round or request behind.
func TestLeavingClientsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	a, o := newAsking(t)
	clients := 60
	if testing.Short() {
		clients = 10
	}
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			era := []session.Era{session.EraLegacy, session.EraModern}[i%2]
			side := &session.ClientSide{Capabilities: json.RawMessage(modernCapabilities), Request: func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
				select {
				case <-time.After(time.Duration(rand.IntN(10)) * time.Millisecond):
					return json.RawMessage(`{"action":"accept"}`), nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}}
			c, err := session.Dial(t.Context(), config.Server{Transport: config.TransportHTTP, URL: config.NewSecret(o.url), Protocol: config.Protocol(era)}, session.Options{Client: side})
			if err != nil {
				t.Error(err)
				return
			}
			for range 5 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(20_000))*time.Microsecond)
				if era == session.EraModern {
					asked, err := asks(ctx, c, "elicitation/create", `{"for":"x"}`, nil)
					if err == nil && rand.IntN(2) == 0 {
						_, _ = asks(ctx, c, "elicitation/create", `{"for":"x"}`, map[string]any{"requestState": asked["requestState"],
							"inputResponses": map[string]any{"q1": map[string]any{"action": "accept"}}})
					}
				} else {
					_, _ = ask(ctx, c, "elicitation/create", `{"for":"x"}`, "")
				}
				cancel()
			}
			_ = c.Close()
		})
	}
	all.Wait()
	g := o.gateway
	o.eventually("no request is left", func() bool {
		g.limits.mu.Lock()
		defer g.limits.mu.Unlock()
		return len(g.limits.byServer) == 0
	})
	g.inputs.mu.Lock()
	for _, w := range g.inputs.byState {
		w.expire.Reset(0) // as after inputTimeout
	}
	g.inputs.mu.Unlock()
	idle := 0
	o.eventually("only idle sessions are left", func() bool {
		g.sessions.mu.Lock()
		defer g.sessions.mu.Unlock()
		idle = len(g.sessions.all)
		return g.sessions.total.All() == idle && !slices.ContainsFunc(g.sessions.all, func(s *ownSession) bool { return s.busy || s.client != nil })
	})
	o.eventually("the others have ended", func() bool { _, open := a.of(`"elicitation"`); return open == idle })
	if c := o.over(session.EraLegacy, &session.ClientSide{Capabilities: json.RawMessage(`{"sampling":{}}`), Request: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"still":"works"}`), nil
	}}); c != nil {
		if got, err := ask(t.Context(), c, "sampling/createMessage", `{}`, ""); err != nil {
			t.Errorf("%s, %v", got, err)
		}
	}
}
