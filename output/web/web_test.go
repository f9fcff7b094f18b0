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
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/output/web"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "Qm9uam91ciBsZSBtb25kZQ"

func token(t *testing.T) web.Token {
	t.Helper()
	tok, err := web.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	return tok
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
	return s, s.URL()
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
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
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
	s, base := start(t, web.Options{Token: token(t)}, nil)
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
	if len(s.Routes()) != 5 {
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
			// The right Host is not enough: no token, no route but two.
			res, _ := ask(t, method, base+path, nil, "")
			open := path == "/healthz" || path == "/login"
			if (res.Header.Get("WWW-Authenticate") != "") == open {
				t.Errorf("%s %s without a token: %d", method, path, res.StatusCode)
			}
			if method != "GET" && method != "HEAD" && !(path == "/login" && method == "POST") {
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

func TestToken(t *testing.T) {
	_, base := start(t, web.Options{Token: token(t)}, nil)
	for _, tt := range []struct {
		path string
		h    header
		want int
	}{
		{"/events", nil, 401},
		{"/events?token=" + secret, nil, 401},
		{"/events", header{"Authorization": "Bearer " + secret[1:]}, 401},
		{"/events", header{"Authorization": "Basic " + secret}, 401},
		{"/events", header{"Authorization": "Bearer"}, 401},
		{"/events", header{"Cookie": "mcptrack=" + secret}, 401},
		{"/events", header{"Authorization": "bearer " + secret}, 200},
		{"/healthz", nil, 200},
		{"/readyz", nil, 401},
		{"/", header{"Accept": "text/html"}, 303},
	} {
		res, text := ask(t, "GET", base+tt.path, tt.h, "")
		if res.StatusCode != tt.want || strings.Contains(text, secret) {
			t.Errorf("%s %v: %d, want %d", tt.path, tt.h, res.StatusCode, tt.want)
		}
	}
	tok := token(t)
	if text := fmt.Sprintf("%v %+v %#v %s", tok, tok, tok, web.Options{Token: tok}.Token); strings.Contains(text, secret) {
		t.Errorf("a token shows: %s", text)
	}
}

func TestLogin(t *testing.T) {
	_, base := start(t, web.Options{Token: token(t)}, nil)
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	post := func(tok string) *http.Response {
		res, err := client.PostForm(base+"/login", url.Values{"token": {tok}})
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	if res := post("wrong"); res.StatusCode != 401 || len(res.Cookies()) != 0 {
		t.Errorf("a wrong token: %d %v", res.StatusCode, res.Cookies())
	}
	res := post(secret + "\n")
	if res.StatusCode != 303 || len(res.Cookies()) != 1 {
		t.Fatalf("the token: %d %v", res.StatusCode, res.Cookies())
	}
	c := res.Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || strings.Contains(c.Value, secret) {
		t.Errorf("the cookie is %v", c)
	}
	if res, _ := ask(t, "GET", base+"/events", header{"Cookie": "mcptrack=" + c.Value}, ""); res.StatusCode != 200 {
		t.Errorf("with the cookie: %d", res.StatusCode)
	}
	flipped := "A" + c.Value[1:]
	if flipped == c.Value {
		flipped = "B" + c.Value[1:]
	}
	if res, _ := ask(t, "GET", base+"/events", header{"Cookie": "mcptrack=" + flipped}, ""); res.StatusCode != 401 {
		t.Errorf("with a forged cookie: %d", res.StatusCode)
	}
	if res, _ := ask(t, "POST", base+"/login", header{"Content-Type": "application/x-www-form-urlencoded"},
		"token="+strings.Repeat("x", 1<<20)); res.StatusCode != 401 {
		t.Errorf("a token of 1 MiB: %d", res.StatusCode)
	}
}

func TestAllowedOrigin(t *testing.T) {
	_, base := start(t, web.Options{Token: token(t), Origins: []string{"https://Dash.example:443"}}, nil)
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
			t.Errorf("%q is taken as an origin", o)
		} else if _, ok := errors.AsType[*web.OptionError](err); !ok {
			t.Errorf("%q: %T", o, err)
		}
	}
}

func TestListen(t *testing.T) {
	open, _ := web.New(web.Options{})
	guarded, _ := web.New(web.Options{Token: token(t)})
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "nonsense", "127.0.0.1:notaport", "127.0.0.1:99999", ""} {
		ln, err := open.Listen(t.Context(), addr)
		if err == nil {
			ln.Close()
		}
		if _, ok := errors.AsType[*web.OptionError](err); !ok {
			t.Errorf("%q: %v", addr, err)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", "127.8.8.8:0"} {
		s, _ := web.New(web.Options{})
		ln, err := s.Listen(t.Context(), addr)
		if err != nil {
			t.Errorf("%q: %v", addr, err)
			continue
		}
		host, _, _ := net.SplitHostPort(addr)
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		if want := "http://" + host + ":" + port; s.URL() != want {
			t.Errorf("%q: URL is %s, want %s", addr, s.URL(), want)
		}
		_, err = open.Listen(t.Context(), ln.Addr().String())
		if _, usage := errors.AsType[*web.OptionError](err); err == nil || usage {
			t.Errorf("occupied: %v", err)
		}
		ln.Close()
	}
	ln, err := guarded.Listen(t.Context(), "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
}

func TestLoadToken(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	tok, err := web.LoadToken(write("good", secret+"\r\n", 0o600))
	if err != nil || !tok.Is(secret) || tok.Is(secret+"x") || tok.Is("") {
		t.Errorf("good: %v", err)
	}
	if (web.Token{}).Is("") {
		t.Error("no token is a token")
	}
	for _, file := range []string{
		write("group", secret, 0o640), write("world", secret, 0o604), write("short", "abc", 0o600), write("empty", "", 0o600),
		write("spaces", secret+" "+secret, 0o600), write("binary", strings.Repeat("\x00", 32), 0o600),
		write("huge", strings.Repeat("x", 1<<20), 0o600), dir, filepath.Join(dir, "missing"),
	} {
		_, err := web.LoadToken(file)
		if _, ok := errors.AsType[*web.OptionError](err); !ok {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the token", filepath.Base(file))
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

func TestConnectionLimitAndSlowHeaders(t *testing.T) {
	t.Parallel()
	s, base := start(t, web.Options{MaxConns: 3}, nil)
	addr := strings.TrimPrefix(base, "http://")
	var held []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	// A byte per second never ends the header: closed after 5 s. Meanwhile the
	// fourth is closed at once.
	begin := time.Now()
	eventually(t, func() bool { return s.Stats().Conns == 3 })
	fourth, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer fourth.Close()
	_ = fourth.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := fourth.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the fourth connection: %v", err)
	}
	if s.Stats().Refused != 1 {
		t.Errorf("refused is %d", s.Stats().Refused)
	}
	slow := make(chan error, 1) // sent to once
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for _, b := range []byte("GET /events HTTP/1.1\r\nHost: localhost\r\nX: aaaaaaaaaaaaaaaa") {
			if _, err := held[0].Write([]byte{b}); err != nil {
				break
			}
			<-tick.C
			if time.Since(begin) > 8*time.Second {
				break
			}
		}
		slow <- nil
	}()
	_ = held[0].SetReadDeadline(time.Now().Add(8 * time.Second))
	_, err = io.Copy(io.Discard, held[0])
	if took := time.Since(begin); errors.Is(err, os.ErrDeadlineExceeded) || took < 4*time.Second || took > 7*time.Second {
		t.Errorf("slow headers: %v after %v", err, took)
	}
	held[0].Close()
	<-slow
}

func TestDrain(t *testing.T) {
	s, err := web.New(web.Options{Drain: 300 * time.Millisecond})
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
		if err == nil || !strings.Contains(err.Error(), "cut") {
			t.Errorf("serve: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("serve does not end")
	}
	if err := <-left; err == nil {
		t.Error("the stuck handler was not cut")
	}
}

func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	end := time.After(5 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("not within 5 s")
		}
	}
}

// An MCP endpoint takes messages, and pages of allowed origins may send them.
func TestMCP(t *testing.T) {
	dash := "https://dash.example"
	for _, mcp := range []bool{false, true} {
		_, base := start(t, web.Options{Token: token(t), Origins: []string{dash}, MCP: mcp}, func(s *web.Server) {
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
		asked := "content-type,mcp-param-region, Mcp-Param-a_b,mcp-param-,mcp-param-a b,mcp-param-\u00e9,mcp-paramx,x-evil,mcp-param-last"
		res, _ = ask(t, "OPTIONS", base+"/mcp", header{"Origin": dash, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}, "")
		allowed := res.Header.Get("Access-Control-Allow-Headers")
		if got := strings.HasSuffix(allowed, "Mcp-Name, mcp-param-region, mcp-param-a_b, mcp-param-last"); got != mcp || !mcp && strings.Contains(allowed, "mcp-param") {
			t.Errorf("MCP %t: the headers %q are allowed", mcp, allowed)
		}
		asked = strings.Repeat("mcp-param-many,", 200)
		res, _ = ask(t, "OPTIONS", base+"/mcp", header{"Origin": dash, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}, "")
		if n := strings.Count(res.Header.Get("Access-Control-Allow-Headers"), "many"); n > 64 {
			t.Errorf("MCP %t: %d headers are allowed", mcp, n)
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
