package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// Two clients of one published server are asked to sample and to elicit at the same time,
// over both transports: none gets a question or an answer of the other.
func TestTwoClientsAtTheSameTime(t *testing.T) {
	t.Parallel()
	rounds := 50
	if os.Getenv("MCPTRACK_NIGHTLY") != "" {
		rounds = 1_000
	}
	o := newOutside(t, Options{}, everything(t), modernPeer(t, "tasks"))
	ts := httptest.NewServer(o.gateway.Server())
	t.Cleanup(ts.Close)
	var all sync.WaitGroup
	for i, name := range []string{"ann", "bob"} {
		side := &session.ClientSide{Capabilities: json.RawMessage(`{"sampling":{},"elicitation":{"form":{}}}`),
			Request: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
				if method == "elicitation/create" {
					return json.RawMessage(`{"action":"accept","content":{"name":"` + name + `"}}`), nil
				}
				if !strings.Contains(string(params), name+".") {
					t.Errorf("%s was asked %s", name, params)
				}
				return json.RawMessage(`{"role":"assistant","model":"m","content":{"type":"text","text":"answer of ` + name + `"}}`), nil
			}}
		c := o.over(session.EraLegacy, side)
		if i == 1 {
			var err error
			if c, err = session.Dial(t.Context(), config.Server{Transport: config.TransportHTTP, URL: config.NewSecret(ts.URL), Protocol: config.ProtocolLegacy}, session.Options{Client: side}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
		}
		for _, call := range []struct{ params, want string }{
			{`{"name":"everything_trigger-sampling-request","arguments":{"prompt":"%s.%d","maxTokens":10}}`, "answer of " + name},
			{`{"name":"everything_trigger-elicitation-request","arguments":{"of":"%s.%d"}}`, name},
		} {
			all.Go(func() {
				for n := range rounds {
					got, err := o.do(c, "tools/call", fmt.Sprintf(call.params, name, n), "")
					if err != nil || !strings.Contains(string(encode(got)), call.want) {
						t.Errorf("%s: %s, %v", name, encode(got), err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}
