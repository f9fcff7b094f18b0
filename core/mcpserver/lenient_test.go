package mcpserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// lenient returns a server whose tool returns its arguments.
func lenient(t *testing.T) *testServer {
	t.Helper()
	s := mcpserver.New(mcpserver.Options{CallTool: func(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		return content(r.Name()), nil
	}})
	t.Cleanup(s.Close)
	return &testServer{Server: s}
}

const initialize0326 = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":null,"_meta":null}}`

// In 2025-03-26, the only version that has batches, each message of one is handled. In others, a batch
// is refused.
func TestBatches(t *testing.T) {
	t.Parallel()
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized","params":null},7,` +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x","_meta":null}},{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}]`
	h := lenient(t)
	s := &endpoint{testServer: h, t: t, url: h.over(t).URL}
	resp := s.ask(t.Context(), http.MethodPost, nil, initialize0326)
	_ = resp.Body.Close()
	session := header{"Mcp-Session-Id": resp.Header.Get("Mcp-Session-Id")}
	status, body := s.post(session, "%s", batch)
	var answers []struct {
		ID     any
		Result json.RawMessage
		Error  *struct{ Code int }
	}
	if err := json.Unmarshal([]byte(body), &answers); err != nil || status != 200 || len(answers) != 4 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if answers[0].ID != 1.0 || answers[0].Error != nil || answers[1].Error == nil || answers[2].ID != 2.0 || !strings.Contains(string(answers[2].Result), `"x"`) || answers[3].Error == nil {
		t.Errorf("%s", body)
	}
	if status, body := s.post(session, `[{"jsonrpc":"2.0","method":"notifications/initialized"}]`); status != 202 || body != "" {
		t.Errorf("only notifications: %d %s", status, body)
	}
	for name, refused := range map[string]string{"an empty batch": `[]`, "too many": "[" + strings.Repeat("7,", 100) + "7]"} {
		if status, body := s.post(session, "%s", refused); status != 400 {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, body := s.post(s.initialize(), "%s", batch); status != 400 {
		t.Errorf("a batch in 2025-11-25: %d %s", status, body)
	}

	w := lenient(t).pipe(t)
	w.send("%s", initialize0326)
	w.next()
	w.send("%s", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	for _, want := range []string{`"id":1`, `"id":2`} {
		if got := w.next(); !strings.Contains(got, want) || !strings.Contains(got, "result") {
			t.Errorf("over stdio: %s", got)
		}
	}
}

// A member that is null is absent, in requests, notifications and answers.
func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	h := newAskingServer(t, true)
	s := &endpoint{testServer: h, t: t, url: h.over(t).URL}
	session := s.initialize()
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":null}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":null,"_meta":null}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized","params":null}`,
	} {
		if status, body := s.post(session, "%s", message); status >= 300 || strings.Contains(body, "error") {
			t.Errorf("%s: %d %s", message, status, body)
		}
	}
	for answer, want := range map[string]string{
		`"result":{"roots":[]},"error":null`:                   "got {'roots':[]}",
		`"result":null,"error":{"code":-32001,"message":"no"}`: "refused: no",
	} {
		stream := s.stream("POST", session, call("x", ""))
		s.post(session, `{"jsonrpc":"2.0","id":%s,%s}`, asked(t, stream.next()), answer)
		if got := stream.next(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", answer, got)
		}
	}
}
