package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/output/web"
)

// A token that is marked for it may be the end of the path of an MCP endpoint. It counts
// as the same client, and neither it nor a wrong one is logged.
func TestTokenInPath(t *testing.T) {
	const marked, plain, wrong = "marked-0123456789-abcdefgh", "plain-0123456789-abcdefgh", "wrong-0123456789-abcdefgh"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("chat "+marked+" path\nother "+plain+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := web.LoadToken(file)
	if err != nil {
		t.Fatal(err)
	}
	logs := &syncBuffer{}
	opts := web.Options{Token: tokens, MCP: true, Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for path, want := range map[string]string{
		"/mcp/" + marked:          "200 chat /mcp /mcp",
		"/mcp/" + marked + "?a=b": "200 chat /mcp?a=b /mcp?a=b",
		"/mcp/" + marked + "/":    "401",
		"/mcp/" + plain:           "401",
		"/mcp/" + wrong:           "401",
		"/mcp/":                   "401",
		"/api/" + marked:          "401",
	} {
		for _, h := range []header{{}, {"Authorization": "Bearer " + plain}} {
			if len(h) > 0 && !strings.HasPrefix(path, "/mcp/") {
				continue // another route
			}
			_, url := start(t, opts, func(s *web.Server) {
				s.Handle("/mcp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, tokens.Identify(r)+" "+r.URL.String()+" "+r.RequestURI)
				}))
			})
			p, body := ask(t, http.MethodPost, url+path, h, "")
			got := strconv.Itoa(p.StatusCode)
			if p.StatusCode == http.StatusOK {
				got += " " + body
			}
			if got != want {
				t.Errorf("%s with %v: %s, want %s", path, h, got, want)
			}
		}
	}
	if text := logs.String(); strings.Contains(text, "/mcp/") || !strings.Contains(text, "wrong token") {
		t.Error(text)
	}
	opts.MCP = false
	_, url := start(t, opts, nil)
	if p, _ := ask(t, http.MethodGet, url+"/mcp/"+marked, header{}, ""); p.StatusCode != http.StatusUnauthorized {
		t.Errorf("%d without an MCP endpoint", p.StatusCode)
	}
}
