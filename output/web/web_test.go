package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/output/internal/browsertest"
	"github.com/mcptrack/mcptrack/output/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(browsertest.Tests{M: m, Browser: &chromium}) }

const secret = "Qm9uam91ciBsZSBtb25kZQ"

// token returns the token secret.
func token(t *testing.T) *web.Tokens {
	t.Helper()
	tokens, err := web.FollowTokens(tokenFile(t, secret), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// tokenFile returns a token file with the given content.
func tokenFile(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// start serves until the test ends, and returns the server and its URL.
func start(t *testing.T, opts web.Options, setup func(*web.Server)) (*web.Server, string) {
	t.Helper()
	s, err := web.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Handle("/events", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_, _ = io.WriteString(w, "data")
	}))
	s.Handle("GET /api/status", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }))
	if setup != nil {
		setup(s)
	}
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s, ln)
	return s, s.URL()
}

// serve serves until the test ends.
func serve(t *testing.T, s *web.Server, ln net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1) // sent to once
	go func() { ended <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
}

type header map[string]string

// ask sends one request; a "Host" in the header is that of the request.
func ask(t *testing.T, method, url string, h header, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range h {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// raw sends bytes and returns the status line of the answer.
func raw(t *testing.T, url, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"}

func TestEveryRouteAndMethodIsGuarded(t *testing.T) {
	s, base := start(t, web.Options{Tokens: token(t)}, nil)
	port := base[strings.LastIndex(base, ":")+1:]
	bad := []header{
		{"Host": "evil.example"}, {"Host": "evil.example:" + port}, {"Host": "localhost.evil.com:" + port},
		{"Host": "127.0.0.1.nip.io:" + port}, {"Host": "localhost.:" + port}, {"Host": "127.0.0.1.:" + port},
		{"Host": "localhost:1"}, {"Host": "localhost"}, {"Host": "10.0.0.1:" + port}, {"Host": "[fe80::1]:" + port},
		{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:1"},
		{"Origin": "https://127.0.0.1:" + port}, {"Origin": base + ".evil.example"},
		{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "nonsense"},
	}
	routes := append(s.Routes(), "/", "/debug/pprof/", "/nowhere")
	if len(s.Routes()) != 8 {
		t.Fatalf("routes are %q", s.Routes())
	}
	for _, pattern := range routes {
		path := pattern[strings.Index(pattern, "/"):]
		for _, method := range methods {
			for _, h := range bad {
				body := ""
				if method == "POST" {
					body = `{"command":"touch /tmp/x"}`
				}
				h := header(h)
				with := header{"Authorization": "Bearer " + secret}
				maps.Copy(with, h)
				res, text := ask(t, method, base+path, with, body)
				if res.StatusCode != http.StatusForbidden {
					t.Errorf("%s %s %v: %d %q", method, path, h, res.StatusCode, text)
				}
				if res.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s %s %v: CORS headers", method, path, h)
				}
			}
			// The correct Host is not enough: these routes need no token.
			res, _ := ask(t, method, base+path, nil, "")
			open := path == "/healthz" || path == "/login" || path == "/login.css" || path == "/favicon.ico"
			if (res.Header.Get("WWW-Authenticate") != "") == open {
				t.Errorf("%s %s without a token: %d", method, path, res.StatusCode)
			}
			if method != "GET" && method != "HEAD" && !((path == "/login" || path == "/logout") && method == "POST") {
				res, _ := ask(t, method, base+path, header{"Authorization": "Bearer " + secret}, "")
				if res.StatusCode != http.StatusMethodNotAllowed && res.StatusCode != http.StatusNotFound {
					t.Errorf("%s %s with the token: %d", method, path, res.StatusCode)
				}
			}
			if res.Header.Get("Content-Security-Policy") == "" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s %s: headers are %v", method, path, res.Header)
			}
		}
	}
}

// A public document is for pages of all sites and needs no token; the Host is still checked, and the
// address that the handler learns is one of the server's own.
func TestPublicDocuments(t *testing.T) {
	for _, proxied := range []bool{false, true} {
		opts := web.Options{Tokens: token(t), Origins: []string{"https://mcp.example"}, MCP: true, TrustProxy: proxied}
		_, base := start(t, opts, func(s *web.Server) {
			s.Handle("/mcp", http.NotFoundHandler())
			s.Handle("/mcp/card", web.Open{Public: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, s.Base(r)) })})
		})
		behindTLS := "http"
		if proxied {
			behindTLS = "https"
		}
		port := base[strings.LastIndex(base, ":")+1:]
		for _, c := range []struct {
			h    header
			want string // the body, or a status
		}{
			{header{}, base}, {header{"Host": "LOCALHOST:" + port}, "http://localhost:" + port},
			{header{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, base}, {header{"Origin": "null"}, base},
			{header{"Host": "mcp.example"}, "https://mcp.example"}, {header{"Host": "MCP.example:443"}, "https://mcp.example"},
			{header{"X-Forwarded-Proto": "https"}, behindTLS + strings.TrimPrefix(base, "http")},
			{header{"X-Forwarded-Host": "evil.example"}, base},
			{header{"Host": "evil.example"}, "403"}, {header{"Host": "evil.example:" + port}, "403"}, {header{"Host": "localhost.evil.com:" + port}, "403"},
		} {
			res, text := ask(t, "GET", base+"/mcp/card", c.h, "")
			if got := text; res.StatusCode != http.StatusOK && c.want != fmt.Sprint(res.StatusCode) || res.StatusCode == http.StatusOK && got != c.want {
				t.Errorf("%v: %d %s, want %s", c.h, res.StatusCode, text, c.want)
			}
			if public := res.Header.Get("Access-Control-Allow-Origin") == "*" && res.Header.Get("Access-Control-Expose-Headers") == "ETag" &&
				res.Header.Get("Cross-Origin-Resource-Policy") == "cross-origin" && res.Header.Get("Access-Control-Allow-Credentials") == ""; public != (c.want != "403") {
				t.Errorf("%v: headers are %v", c.h, res.Header)
			}
		}
		res, _ := ask(t, "OPTIONS", base+"/mcp/card", header{"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}, "")
		if res.StatusCode != http.StatusNoContent || res.Header.Get("Access-Control-Allow-Methods") != "GET" || res.Header.Get("Access-Control-Allow-Headers") != "Content-Type, If-None-Match" {
			t.Errorf("preflight: %d %v", res.StatusCode, res.Header)
		}
		// Nothing else becomes public.
		for path, want := range map[string]int{"/mcp": http.StatusForbidden, "/mcp/card2": http.StatusForbidden, "/events": http.StatusForbidden} {
			if res, _ := ask(t, "GET", base+path, header{"Origin": "https://evil.example"}, ""); res.StatusCode != want || res.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: %d", path, res.StatusCode)
			}
		}
	}
}

func TestGoodNames(t *testing.T) {
	_, base := start(t, web.Options{}, nil)
	port := base[strings.LastIndex(base, ":")+1:]
	for _, h := range []header{
		{}, {"Host": "LocalHost:" + port}, {"Host": "[::1]:" + port}, {"Origin": base}, {"Sec-Fetch-Site": "none"},
		{"Sec-Fetch-Site": "same-origin", "Origin": base}, {"Host": "localhost:" + port, "Origin": "http://localhost:" + port},
	} {
		if res, text := ask(t, "GET", base+"/events", h, ""); res.StatusCode != 200 || text != "data" {
			t.Errorf("%v: %d %q", h, res.StatusCode, text)
		}
	}
	for request, want := range map[string]string{
		"GET /events HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                                     "400",
		"GET /events HTTP/1.1\r\n\r\n":                                                                           "400",
		"GET /events HTTP/1.0\r\n\r\n":                                                                           "403",
		"GET /events HTTP/1.1\r\nHost:\r\n\r\n":                                                                  "403",
		"GET http://evil.example/events HTTP/1.1\r\nHost: localhost:" + port + "\r\n\r\n":                        "403",
		"GET /events HTTP/1.1\r\nHost: localhost:" + port + "\r\nOrigin: " + base + "\r\nOrigin: x\r\n\r\n":      "403",
		"GET /events HTTP/1.1\r\nHost: localhost:" + port + "\r\nContent-Length: 3\r\n\r\nabc":                   "400",
		"GET /events HTTP/1.1\r\nHost: localhost:" + port + "\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n": "431",
	} {
		if line := raw(t, base, request); !strings.Contains(line, " "+want+" ") {
			t.Errorf("%.80q: %s, want %s", request, line, want)
		}
	}
}

func TestAllowedOrigin(t *testing.T) {
	_, base := start(t, web.Options{Tokens: token(t), Origins: []string{"https://Dash.example:443"}}, nil)
	dash := "https://dash.example"
	res, _ := ask(t, "OPTIONS", base+"/events", header{"Origin": dash, "Access-Control-Request-Method": "GET", "Sec-Fetch-Site": "cross-site"}, "")
	if res.StatusCode != 204 || res.Header.Get("Access-Control-Allow-Origin") != dash ||
		!strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Last-Event-ID") {
		t.Errorf("preflight: %d %v", res.StatusCode, res.Header)
	}
	res, _ = ask(t, "GET", base+"/events", header{"Origin": dash, "Authorization": "Bearer " + secret}, "")
	if res.StatusCode != 200 || res.Header.Get("Access-Control-Allow-Origin") != dash || res.Header.Get("Vary") != "Origin" {
		t.Errorf("GET: %d %v", res.StatusCode, res.Header)
	}
	if res, _ = ask(t, "GET", base+"/events", header{"Host": "dash.example", "Authorization": "Bearer " + secret}, ""); res.StatusCode != 200 {
		t.Errorf("through a proxy: %d", res.StatusCode)
	}
	for _, o := range []string{"http://dash.example", "https://dash.example.evil", "https://dash.example:8443"} {
		if res, _ := ask(t, "OPTIONS", base+"/events", header{"Origin": o, "Access-Control-Request-Method": "GET"}, ""); res.StatusCode != 403 ||
			res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %v", o, res.StatusCode, res.Header)
		}
	}
	for _, o := range []string{"*", "dash.example", "https://*.example", "https://a/b", "ftp://a", "https://u:p@a", "https://a.", "null"} {
		if _, err := web.New(web.Options{Origins: []string{o}}); err == nil {
			t.Errorf("%q is accepted as an origin", o)
		} else if _, ok := errors.AsType[*web.OptionError](err); !ok {
			t.Errorf("%q: %T", o, err)
		}
	}
}

func TestReady(t *testing.T) {
	var why error
	_, base := start(t, web.Options{Ready: func() error { return why }}, nil)
	if res, _ := ask(t, "GET", base+"/readyz", nil, ""); res.StatusCode != 200 {
		t.Errorf("ready: %d", res.StatusCode)
	}
	why = errors.New("2 of 3 servers were not tried yet")
	if res, text := ask(t, "GET", base+"/readyz", nil, ""); res.StatusCode != 503 || text != why.Error()+"\n" {
		t.Errorf("not ready: %d %q", res.StatusCode, text)
	}
}

func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	end := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("not within 30 s")
		}
	}
}

// An MCP endpoint accepts messages of 4 MiB, and pages of allowed origins may send them.
func TestMCP(t *testing.T) {
	dash := "https://dash.example"
	for _, mcp := range []bool{false, true} {
		_, base := start(t, web.Options{Tokens: token(t), Origins: []string{dash}, MCP: mcp}, func(s *web.Server) {
			s.Handle("/mcp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				if err != nil {
					w.WriteHeader(http.StatusRequestEntityTooLarge)
				}
				_, _ = fmt.Fprint(w, n)
			}))
		})
		res, _ := ask(t, "OPTIONS", base+"/mcp", header{"Origin": dash, "Access-Control-Request-Method": "POST"}, "")
		if got := strings.Contains(res.Header.Get("Access-Control-Allow-Methods"), "POST") &&
			strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Mcp-Session-Id") &&
			strings.Contains(res.Header.Get("Access-Control-Expose-Headers"), "Mcp-Session-Id"); got != mcp {
			t.Errorf("MCP %t: %v", mcp, res.Header)
		}
		if allowed := res.Header.Get("Access-Control-Allow-Headers"); strings.HasSuffix(allowed, ", *") != mcp {
			t.Errorf("MCP %t: the headers %q are allowed", mcp, allowed)
		}
		res, _ = ask(t, "POST", base+"/mcp", header{"Authorization": "Bearer " + secret}, strings.Repeat("x", 4<<20))
		if got := res.StatusCode == http.StatusOK; got != mcp {
			t.Errorf("MCP %t: 4 MiB give %d", mcp, res.StatusCode)
		}
		res, _ = ask(t, "POST", base+"/mcp", header{"Authorization": "Bearer " + secret}, strings.Repeat("x", 5<<20))
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("MCP %t: 5 MiB give %d", mcp, res.StatusCode)
		}
	}
}

// Only an Open handler needs no token, and its body limit applies. The other checks remain, and
// no spelling of a path bypasses the token.
func TestOpenHandlersNeedNoToken(t *testing.T) {
	body := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = io.WriteString(w, strings.Repeat("x", int(min(n, 3))))
	})
	_, base := start(t, web.Options{Tokens: token(t)}, func(s *web.Server) {
		s.Handle("/hooks/", web.Open{Handler: body, MaxBody: 200 << 10})
		s.Handle("/signed/", web.Open{Handler: body, AnyHost: true})
		s.Handle("/other/", http.NotFoundHandler())
	})
	for _, c := range []struct {
		path   string
		header header
		size   int
		want   int
	}{
		{"/hooks/a", nil, 3, http.StatusOK},
		{"/hooks/a", nil, 200 << 10, http.StatusOK},
		{"/hooks/a", nil, 200<<10 + 1, http.StatusRequestEntityTooLarge},
		{"/hooks/a", header{"Origin": "https://evil.example"}, 3, http.StatusForbidden},
		{"/hooks/a", header{"Host": "hooks.example"}, 3, http.StatusForbidden},
		{"/signed/a", header{"Host": "hooks.example"}, 3, http.StatusOK},
		{"/signed/a", header{"Host": "hooks.example", "Origin": "https://evil.example"}, 3, http.StatusForbidden},
		{"/signed/a", header{"Host": "hooks.example", "Sec-Fetch-Site": "cross-site"}, 3, http.StatusForbidden},
		{"/hooks", nil, 3, http.StatusUnauthorized}, // the mux would redirect
		{"/other/a", nil, 3, http.StatusUnauthorized},
		{"/hooks/../other/a", nil, 3, http.StatusUnauthorized},
		{"/hooks/%2e%2e/other/a", nil, 3, http.StatusOK}, // the mux routes it to /hooks/
		{"//hooks/a", nil, 3, http.StatusUnauthorized},
	} {
		res, text := ask(t, "POST", base+c.path, c.header, strings.Repeat("b", c.size))
		if res.StatusCode != c.want {
			t.Errorf("%s of %d bytes with %v: %s %s", c.path, c.size, c.header, res.Status, text)
		}
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	s, err := web.New(web.Options{Drain: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{}) // closed by the hook
	s.OnShutdown(func(context.Context) error { close(stop); return nil })
	left := make(chan error, 1) // sent to by the handler that is cut
	s.Handle("/stream", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-stop
		_, _ = io.WriteString(w, "end")
	}))
	s.Handle("/stuck", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- context.Cause(r.Context())
	}))
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1) // sent to once
	go func() { ended <- s.Serve(ctx, ln) }()
	client := &http.Client{}
	defer client.CloseIdleConnections()
	stream, err := client.Get(s.URL() + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	stuck, err := client.Get(s.URL() + "/stuck")
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Body.Close()
	cancel()
	if text, err := io.ReadAll(stream.Body); string(text) != "end" || err != nil {
		t.Errorf("the stream ended with %q, %v", text, err)
	}
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "unfinished requests were closed") {
			t.Errorf("serve: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Serve does not return")
	}
	if err := <-left; err == nil {
		t.Error("the stuck handler was not cut")
	}
}

// Connections that browsers open in advance do not delay the end.
func TestDrainUnused(t *testing.T) {
	s, err := web.New(web.Options{Drain: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1) // sent to once
	go func() { ended <- s.Serve(ctx, ln) }()
	unused, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer unused.Close()
	eventually(t, func() bool { return s.Conns() > 0 })
	began := time.Now()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("draining took %v", took)
	}
}
