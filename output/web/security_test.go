package web_test

import (
	"bufio"
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/output/web"
)

// syncBuffer is a buffer for the log of several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// 1,500 connections without a token, in every state in which one can be held open, do not delay
// other clients.
func TestHostileConnections(t *testing.T) {
	hostile, most := 1500, 400
	if testing.Short() {
		t.Parallel()
		hostile, most = 100, 40
	}
	for name, request := range map[string]string{
		"nothing sent":              "",
		"half a header":             "GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
		"missing body, wrong host":  "POST /events HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\n",
		"missing body, no token":    "POST /events HTTP/1.1\r\nHost: HOST\r\nContent-Length: 9\r\n\r\n",
		"missing body, login":       "POST /login HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\n",
		"idle after a health check": "GET /healthz HTTP/1.1\r\nHost: HOST\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Parallel() // not with all connections: they need too many open files
			}
			s, base := start(t, web.Options{Tokens: token(t), MaxConns: most}, nil)
			host := strings.TrimPrefix(base, "http://")
			request := strings.ReplaceAll(request, "HOST", host)
			var conns []net.Conn
			defer func() {
				for _, c := range conns {
					_ = c.Close()
				}
			}()
			for i := range hostile {
				c, err := net.Dial("tcp", host)
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, c)
				_, _ = io.WriteString(c, request) // fails if the connection was closed already
				if i%(hostile/20) != 0 {
					continue
				}
				if res, _ := ask(t, "GET", base+"/healthz", nil, ""); res.StatusCode != http.StatusOK {
					t.Fatalf("health check: %s", res.Status)
				}
			}
			if n := s.Stats().Conns; n > most {
				t.Errorf("%d connections are open", n)
			}
			if res, _ := ask(t, "GET", base+"/events", header{"Authorization": "Bearer " + secret}, ""); res.StatusCode != http.StatusOK {
				t.Errorf("with the token: %s", res.Status)
			}
		})
	}
}

// A refused request whose body does not arrive is answered, and its connection closed, after
// about a second; an accepted one after the body timeout.
func TestMissingBodyIsNotAwaited(t *testing.T) {
	send := func(t *testing.T, c net.Conn, host, want string) (took time.Duration) {
		t.Helper()
		began := time.Now()
		_, _ = io.WriteString(c, "POST /events HTTP/1.1\r\nHost: "+host+"\r\nContent-Length: 9\r\n\r\n")
		in := bufio.NewReader(c)
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, want) {
			t.Errorf("answer %q, %v, want %s", line, err, want)
		}
		_, _ = io.Copy(io.Discard, in)
		return time.Since(began)
	}
	inBubble(t, func(t *testing.T, host string, dial func() net.Conn) {
		if took := send(t, dial(), "evil.example", "403"); took > 2*time.Second {
			t.Errorf("a refused one is closed after %v", took)
		}
		if took := send(t, dial(), host, "405"); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("an accepted one is closed after %v", took)
		}
	})
	_, base := start(t, web.Options{Tokens: token(t)}, nil)
	host := strings.TrimPrefix(base, "http://")
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if took := send(t, c, host, "401"); took > time.Minute {
		t.Errorf("without a token it is closed after %v", took)
	}
}

// Connections with the token are neither closed for untrusted ones nor limited like them.
func TestTrustedConnectionsStay(t *testing.T) {
	s, base := start(t, web.Options{Tokens: token(t), MaxConns: 80}, nil)
	host := strings.TrimPrefix(base, "http://")
	var trusted []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		trusted = append(trusted, c)
	}
	use := func(c net.Conn) string {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, "GET /events HTTP/1.1\r\nHost: "+host+"\r\nAuthorization: Bearer "+secret+"\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err.Error()
		}
		_ = res.Body.Close()
		return res.Status
	}
	for i, c := range trusted {
		if got := use(c); got != "200 OK" {
			t.Fatalf("connection %d: %s", i, got)
		}
	}
	for range 200 {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	eventually(t, func() bool { return s.Stats().Evicted > 120 })
	for i, c := range trusted {
		if got := use(c); got != "200 OK" {
			t.Fatalf("connection %d after the flood: %s", i, got)
		}
	}
}

// However many streams a client with the token opens, health checks are answered. Streams beyond
// the limit are refused.
func TestTokenHolderCannotStarveOthers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s, base := start(t, web.Options{Tokens: token(t), MaxConns: 80}, func(s *web.Server) {
		s.Handle("/stream", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}))
	})
	defer close(release)
	host := strings.TrimPrefix(base, "http://")
	open := func(more string) (string, error) {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: "+host+"\r\nAuthorization: Bearer "+secret+"\r\n"+more+"\r\n")
		return bufio.NewReader(c).ReadString('\n')
	}
	streams := 0
	for range 200 {
		line, err := open("")
		switch {
		case strings.Contains(line, "200"):
			streams++
		case !strings.Contains(line, "503"):
			t.Fatalf("%q, %v", line, err)
		}
		if streams%20 == 0 || streams == 70 {
			if res, _ := ask(t, "GET", base+"/healthz", nil, ""); res.StatusCode != http.StatusOK {
				t.Fatalf("health check: %s", res.Status)
			}
		}
	}
	if streams != 70 || s.Stats().Refused != 130 {
		t.Errorf("%d streams, %+v", streams, s.Stats())
	}
	if line, err := open("Accept: text/event-stream\r\n"); err == nil {
		t.Errorf("an event stream beyond the limit is answered %q", line)
	}
}

// Guesses from one address are limited and logged, at /login and as Bearer. The right token and cookie
// pass meanwhile.
func TestWrongTokens(t *testing.T) {
	var log syncBuffer
	_, base := start(t, web.Options{Tokens: token(t), TrustProxy: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	form := header{"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-For": "203.0.113.9, 198.51.100.1"}
	res, _ := ask(t, "POST", base+"/login", form, url.Values{"token": {secret}}.Encode())
	if res.StatusCode != http.StatusSeeOther {
		t.Fatalf("login: %s", res.Status)
	}
	cookie := res.Cookies()[0]
	counts := make(map[int]int)
	for range 20 {
		res, _ := ask(t, "POST", base+"/login", form, "token=wrong")
		counts[res.StatusCode]++
		res, _ = ask(t, "GET", base+"/events", header{"Authorization": "Bearer wrong", "X-Forwarded-For": "198.51.100.1"}, "")
		counts[res.StatusCode]++
	}
	if counts[401] < 5 || counts[401] > 7 || counts[401]+counts[429] != 40 {
		t.Errorf("answers to 40 wrong tokens: %v", counts)
	}
	if n := strings.Count(log.String(), "a client sent a wrong token"); n != counts[401] || !strings.Contains(log.String(), "198.51.100.1") || strings.Contains(log.String(), "203.0.113.9") {
		t.Errorf("%d wrong tokens in the log:\n%s", n, log.String())
	}
	if res, _ := ask(t, "POST", base+"/login", form, "token=wrong"); res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("a wrong token after many: %s", res.Status)
	}
	if res, _ := ask(t, "POST", base+"/login", form, url.Values{"token": {secret}}.Encode()); res.StatusCode != http.StatusSeeOther {
		t.Errorf("the right token while guesses are limited: %s", res.Status)
	}
	if res, _ := ask(t, "GET", base+"/events", header{"Authorization": "Bearer " + secret, "X-Forwarded-For": "198.51.100.1"}, ""); res.StatusCode != http.StatusOK {
		t.Errorf("the right token as Bearer while guesses are limited: %s", res.Status)
	}
	if res, _ := ask(t, "GET", base+"/events", header{"Cookie": cookie.Name + "=" + cookie.Value, "X-Forwarded-For": "198.51.100.1"}, ""); res.StatusCode != http.StatusOK {
		t.Errorf("with a cookie: %s", res.Status)
	}
	if res, _ := ask(t, "GET", base+"/events", header{"Authorization": "Bearer " + secret, "X-Forwarded-For": "192.0.2.7"}, ""); res.StatusCode != http.StatusOK {
		t.Errorf("from another address: %s", res.Status)
	}
}

// A logout removes the cookie and makes copies of it invalid.
func TestLogout(t *testing.T) {
	_, base := start(t, web.Options{Tokens: token(t)}, nil)
	login := func() string {
		res, _ := ask(t, "POST", base+"/login", header{"Content-Type": "application/x-www-form-urlencoded"}, url.Values{"token": {secret}, "next": {"/?server=a"}}.Encode())
		if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/?server=a" {
			t.Fatalf("login: %s to %q", res.Status, res.Header.Get("Location"))
		}
		return res.Cookies()[0].Name + "=" + res.Cookies()[0].Value
	}
	one, two := login(), login()
	if res, _ := ask(t, "GET", base+"/logout", header{"Cookie": one}, ""); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET /logout: %s", res.Status)
	}
	res, _ := ask(t, "POST", base+"/logout", header{"Cookie": one}, "")
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/login" || len(res.Cookies()) != 1 || res.Cookies()[0].MaxAge >= 0 {
		t.Errorf("logout: %s %v", res.Status, res.Header)
	}
	for cookie, want := range map[string]int{one: http.StatusUnauthorized, two: http.StatusOK} {
		if res, _ := ask(t, "GET", base+"/events", header{"Cookie": cookie}, ""); res.StatusCode != want {
			t.Errorf("after the logout: %s, want %d", res.Status, want)
		}
	}
	for next, want := range map[string]string{"//evil.example": "/", "https://evil.example": "/", "/\\evil.example": "/", "/?a=b": "/?a=b"} {
		res, _ := ask(t, "POST", base+"/login", header{"Content-Type": "application/x-www-form-urlencoded"}, url.Values{"token": {secret}, "next": {next}}.Encode())
		if got := res.Header.Get("Location"); got != want {
			t.Errorf("next=%s leads to %q", next, got)
		}
	}
}
