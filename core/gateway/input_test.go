package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Between a client and a server of the modern era, capabilities go up, a request for
// input comes down, and the repeated request carries the answers.
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
