package realtime

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// The handshake passes: path or fixed path, query, headers, subprotocol, and the
// answer's headers.
func TestProxyHandshake(t *testing.T) {
	far := &realtimetest.Endpoint{Header: http.Header{"X-Request-Id": {"req_1"}, "Set-Cookie": {"a=1", "b=2"}}}
	far.Accept.Subprotocols = []string{"realtime"}
	x := startProxy(t, far, func(o *ProxyOptions) { o.Upstream.Header = http.Header{"X-Org": {"ours"}} })
	c, res, err := x.handshake("/some/path?model=m&x=a%20b", &websocket.DialOptions{
		Subprotocols: []string{"other", "realtime", "openai-insecure-api-key.k"},
		HTTPHeader: http.Header{"Authorization": {"Bearer client"}, "X-Org": {"theirs"}, "X-Own": {"1", "2"}, "User-Agent": {"app/1"},
			"Origin": {"https://app.example"}, "Te": {"trailers"}, "Cookie": {"c=3"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Subprotocol() != "realtime" || res.Header.Get("X-Request-Id") != "req_1" || len(res.Header.Values("Set-Cookie")) != 2 {
		t.Errorf("subprotocol %q, headers %v", c.Subprotocol(), res.Header)
	}
	q := far.Requests()[0]
	if q.URL.Path != "/v1/realtime" || q.URL.RawQuery != "model=m&x=a%20b" {
		t.Errorf("asked for %v", q.URL)
	}
	for name, want := range map[string]string{"Authorization": "Bearer client", "X-Org": "ours", "X-Own": "1,2", "User-Agent": "app/1",
		"Origin": "https://app.example", "Te": "", "Cookie": "c=3", "Sec-Websocket-Protocol": "other,realtime,openai-insecure-api-key.k", "X-Forwarded-For": ""} {
		if got := strings.Join(q.Header.Values(name), ","); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	bare := x.connect("/", nil)
	_ = bare.CloseNow()
	if ua := far.Requests()[1].Header.Get("User-Agent"); ua != "" && !strings.HasPrefix(ua, "Go-http-client") {
		t.Errorf("user agent %q", ua)
	}
}

// An upstream without a path gets the client's.
func TestProxyPath(t *testing.T) {
	far := &realtimetest.Endpoint{}
	x := startProxy(t, far, func(o *ProxyOptions) {
		o.Upstream.URL = strings.TrimSuffix(o.Upstream.URL, "/v1/realtime")
		o.Upstream.Query = map[string][]string{"api-version": {"1"}}
	})
	x.connect("/openai/v1/realtime?model=m", nil)
	x.connect("/", nil)
	q := far.Requests()
	if q[0].URL.String() != "/openai/v1/realtime?api-version=1&model=m" || q[1].URL.String() != "/v1/realtime?api-version=1" {
		t.Errorf("asked for %v and %v", q[0].URL, q[1].URL)
	}
}

func TestProxyRefusals(t *testing.T) {
	x := startProxy(t, &realtimetest.Endpoint{Refuse: func(n int, _ *http.Request) int { return []int{0, 401, 429, 0, 0}[n] }},
		func(o *ProxyOptions) { o.MaxSessions = 1 })
	for _, want := range []int{401, 429} {
		_, res, err := x.handshake("/", nil)
		if err == nil || res == nil || res.StatusCode != want {
			t.Fatalf("%v, %v, want %d", err, res, want)
		}
		if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), "refused by the test") || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v", body, res.Header)
		}
	}
	x.connect("/", nil)
	if _, res, err := x.handshake("/", nil); err == nil || res == nil || res.StatusCode != 503 {
		t.Errorf("one too many: %v, %v", err, res)
	}
	res, err := http.Get(x.url + "/v1/models") //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("plain HTTP: %d", res.StatusCode)
	}
	unreachable := startProxy(t, &realtimetest.Endpoint{}, func(o *ProxyOptions) { o.Upstream.URL = "ws://127.0.0.1:1/v1/realtime" })
	if _, res, err := unreachable.handshake("/", nil); err == nil || res == nil || res.StatusCode != 502 {
		t.Errorf("an unreachable endpoint: %v, %v", err, res)
	}
}
