package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// A Func learns the name and the session of a client of either era: the name is printable and short, and
// the session stays over a restart, and is not secret.
func TestWhoCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() *mcpserver.Server {
		s := mcpserver.New(mcpserver.Options{SessionDir: dir, Key: []byte("key"), CallTool: func(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
			return json.RawMessage(fmt.Sprintf(`{"content":[],"who":%q}`, r.ClientName()+" "+r.Session())), nil
		}})
		s.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{json.RawMessage(`{"name":"x","inputSchema":{"type":"object"}}`)}})
		t.Cleanup(s.Close)
		return s
	}
	post := func(s *mcpserver.Server, headers map[string]string, body string) *httptest.ResponseRecorder {
		q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		for name, value := range headers {
			q.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, q)
		return w
	}
	who := func(answer string) string {
		t.Helper()
		_, rest, found := strings.Cut(answer, `"who":"`)
		who, _, _ := strings.Cut(rest, `"`)
		if !found {
			t.Fatal(answer)
		}
		return who
	}
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"%s}}`
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"%s","version":"1"}}}`
	s := start()
	id := post(s, nil, fmt.Sprintf(initialize, `a\u001b`+strings.Repeat("y", 100))).Header().Get("Mcp-Session-Id")
	session := map[string]string{"Mcp-Session-Id": id}
	first := who(post(s, session, fmt.Sprintf(call, "")).Body.String())
	name, short, _ := strings.Cut(first, " ")
	if !strings.Contains(name, "x1byy") || len(name) > 80 || len(short) != 8 || strings.Contains(strings.ToLower(id), short) {
		t.Errorf("%q", first)
	}
	s.Close()
	s = start()
	if again := who(post(s, session, fmt.Sprintf(call, "")).Body.String()); again != first {
		t.Errorf("%q after %q", again, first)
	}
	const meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"m","version":"1"}}`
	modern := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "x"}
	if got := who(post(s, modern, fmt.Sprintf(call, meta)).Body.String()); got != "m " {
		t.Errorf("modern over HTTP: %q", got)
	}
	for text, want := range map[string]string{fmt.Sprintf(call, meta): "m ", fmt.Sprintf(initialize, "l") + "\n" + fmt.Sprintf(call, ""): "l "} {
		var out strings.Builder
		if err := s.ServeIO(t.Context(), strings.NewReader(text+"\n"), &out); err != nil {
			t.Fatal(err)
		}
		if got := who(out.String()); len(got) != len(want)+8 || !strings.HasPrefix(got, want) {
			t.Errorf("%q over pipes, want %q and an id", got, want)
		}
	}
}
