package wire

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Whatever is requested, credentials go to one origin only.
func TestGuardKeepsToItsOrigin(t *testing.T) {
	var hits int
	ts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer ts.Close()
	origin, _ := url.Parse("http://origin.test/mcp")
	base := newBase(nil)
	defer base.CloseIdleConnections()
	h := (&HTTPDialer{cfg: testConfig(), url: origin, base: base, headers: http.Header{"Authorization": {"Bearer x"}}}).Streamable().http
	for _, target := range []string{ts.URL, "https://origin.test/mcp", "http://origin.test:81/mcp"} {
		to, _ := url.Parse(target + "?q=secret")
		p, err := h.send(t.Context(), http.MethodPost, to, nil, []byte("x"), new(exchange))
		if err == nil {
			p.Body.Close()
			t.Errorf("%s was asked", target)
		} else if strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "another origin") {
			t.Errorf("%v", err)
		}
	}
	if hits != 0 {
		t.Errorf("%d requests left", hits)
	}
}

func TestSameOrigin(t *testing.T) {
	t.Parallel()
	for other, want := range map[string]bool{
		"https://A.test:443/x": true, "https://a.test": true, "https://a.test:444": false, "http://a.test": false, "http://a.test:443": false, "https://b.test": false,
	} {
		a, _ := url.Parse("https://a.test/mcp")
		b, _ := url.Parse(other)
		if sameOrigin(a, b) != want {
			t.Errorf("%s: %v", other, !want)
		}
	}
}

// network is a network played by the test.
type network func(*http.Request) (*http.Response, error)

func (f network) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// However many requests a server sends, the replies in flight are bounded.
func TestRepliesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var out atomic.Int64 // replies that left
		e := &HTTPDialer{cfg: testConfig(), url: &url.URL{Scheme: "http", Host: "origin.test"}, base: newBase(nil)}
		c := e.Streamable()
		c.http.base = network(func(q *http.Request) (*http.Response, error) {
			out.Add(1)
			<-release
			return &http.Response{StatusCode: http.StatusAccepted, Body: io.NopCloser(strings.NewReader("x")), Request: q}, nil
		})
		ask := func(n int) {
			for range n {
				c.receive(new(scratch), []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			}
			synctest.Wait()
		}
		ask(50)
		if n := out.Load(); n != maxReplies {
			t.Errorf("%d replies are on their way", n)
		}
		close(release)
		synctest.Wait()
		ask(1)
		if n := out.Load(); n != maxReplies+1 {
			t.Errorf("%d replies left: the slots are not given back", n)
		}
		c.cancel()
		c.group.Wait()
	})
}

func testConfig() Config {
	return Config{MaxLine: 1 << 20, MaxBody: 1 << 20, Redact: func(s string) string { return s }, Logger: slog.New(slog.DiscardHandler)}
}
