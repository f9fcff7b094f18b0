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
	inBubble(t, web.Options{}, func(t *testing.T, host string, dial func(string) net.Conn) {
		if took := send(t, dial("127.0.0.1"), "evil.example", "403"); took > 2*time.Second {
			t.Errorf("a refused one is closed after %v", took)
		}
		if took := send(t, dial("127.0.0.1"), host, "405"); took < 9*time.Second || took > 11*time.Second {
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
