package web_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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
	opts := web.Options{Tokens: web.FixedTokens(tokens), MCP: true, Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
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

// A path that is almost that of a token is neither logged nor repeated to the client, by
// whatever means it is refused.
func TestNoPathIsLoggedOrEchoed(t *testing.T) {
	const mine = "marked-0123456789-abcdefgh"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("chat "+mine+" path\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := web.LoadToken(file)
	if err != nil {
		t.Fatal(err)
	}
	handle := func(s *web.Server) {
		s.Handle("/mcp", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		s.Handle("GET /api/{id}/log", http.NotFoundHandler())
		s.Handle("GET /assets/", http.NotFoundHandler())
		s.Handle("/hooks/", web.Open{Handler: http.NotFoundHandler()})
	}
	paths := []string{"/mcp/T", "//mcp/T", "/mcp//T", "///mcp///T//", "/x/mcp/T", "/mcp/T/", "/mcp/T/..", "/mcp/./T", "/a/../mcp/T", "/MCP/T", "/mcp%2FT", "/mcp%2fT/", "/%6dcp/T",
		"/mcp/T%00", "/mcp/T?a=b", "/mcp;/T", "/mcp\\T", "/T", "/T/mcp", "/mcpT", "/hooks/T", "//hooks/T", "/hooks/../T", "/api/T/log", "/api//T/log", "/assets/T", "/assets/../T", "/./api/T/log"}
	asked := 0
	for _, tokens := range []*web.Tokens{nil, web.FixedTokens(tokens)} {
		for _, mcp := range []bool{false, true} {
			logs := &syncBuffer{}
			_, base := start(t, web.Options{Tokens: tokens, MCP: mcp, Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}, handle)
			host := strings.TrimPrefix(base, "http://")
			for _, path := range paths {
				path = strings.ReplaceAll(path, "T", mine)
				for _, target := range []string{path, base + path} {
					for _, method := range []string{"GET", "POST", "OPTIONS", "CONNECT", "TRACE"} {
						for _, more := range []string{"", "Authorization: Bearer " + mine, "Authorization: Bearer wrong", "Origin: https://evil.example", "Content-Length: 3", "Accept: text/html", "Host: evil.example"} {
							request := method + " " + target + " HTTP/1.1\r\nConnection: close\r\n"
							if !strings.HasPrefix(more, "Host:") {
								request += "Host: " + host + "\r\n"
							}
							if more != "" {
								request += more + "\r\n"
							}
							answer := exchange(t, host, request+"\r\n")
							if asked++; !strings.HasPrefix(answer, "HTTP/1.1 ") || strings.Contains(answer, mine) {
								t.Fatalf("%q is answered\n%s", request, answer)
							}
						}
					}
				}
			}
			if text := logs.String(); strings.Contains(text, mine) || !strings.Contains(text, `route="GET /api/{id}/log"`) && tokens.Set() {
				t.Errorf("token %t, MCP %t:\n%.3000s", tokens.Set(), mcp, text)
			}
		}
	}
	if want := len(paths) * 2 * 5 * 7 * 4; asked != want {
		t.Errorf("%d requests, want %d", asked, want)
	}
}

// exchange sends bytes and returns all that is answered.
func exchange(t *testing.T, host, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(c) // a reset after the answer does not matter
	return string(answer)
}
