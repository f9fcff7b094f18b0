package vault_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/vault"
)

// Without a check of credentials all clients are one, whatever they send as credentials.
func TestPrincipal(t *testing.T) {
	t.Parallel()
	s, err := vault.NewServer(vault.ServerOptions{Vault: vault.Options{Dir: t.TempDir()}, Principal: func(*http.Request) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	post := func(credentials, session, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {credentials}, "Mcp-Session-Id": {session}}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	session := post("Bearer a", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`).Header().Get("Mcp-Session-Id")
	if w := post("Bearer b", session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
