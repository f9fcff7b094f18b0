package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
)

// TestExplain: an error that joins those of several attempts is one line without repetitions.
func TestExplain(t *testing.T) {
	t.Parallel()
	late, refused := errors.New("did not answer within 1s"), errors.New("the server\nis closed")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"one":       {late, "did not answer within 1s"},
		"the same":  {errors.Join(late, fmt.Errorf("did not answer within %s", "1s")), "did not answer within 1s"},
		"two":       {errors.Join(late, errors.Join(errors.New("closed"), late)), "did not answer within 1s; closed"},
		"wrapped":   {fmt.Errorf("start: %w", errors.Join(late, errors.New("closed"))), "start: did not answer within 1s; closed"},
		"two lines": {errors.Join(refused, late), "the server is closed; did not answer within 1s"},
	} {
		if err := explain(config.Server{Transport: config.TransportStdio}, c.err); err.Error() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: got %q, want %q", name, err, c.want)
		}
	}
	if err := explain(config.Server{}, fmt.Errorf("dial: %w", context.Canceled)); err.Error() != "dial: context canceled" {
		t.Errorf("cancelled: %v", err)
	}
}

// TestExplainNetwork: failures before the server is reached that a test cannot cause at a server.
func TestExplainNetwork(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	address := strings.TrimPrefix(closed.URL, "http://")
	proxied := http.Client{Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(closed.URL) }}}
	_, unproxied := proxied.Get("http://docs.example/mcp")
	dial := func(err error) error {
		return &url.Error{Op: "Post", URL: "http://docs.example/mcp?key=secret", Err: &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80}, Err: err}}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"proxy":       {unproxied, "the proxy: cannot connect to " + address + ": connection refused; check HTTP_PROXY and HTTPS_PROXY"},
		"no name":     {dial(&net.DNSError{Err: "no such host", Name: "docs.example", IsNotFound: true}), `there is no host named "docs.example"; check the URL`},
		"name server": {dial(&net.DNSError{Err: "server misbehaving", Name: "docs.example", IsTemporary: true}), `cannot look up the host "docs.example": server misbehaving; check the network connection`},
		"no route":    {dial(errors.New("no route to host")), "cannot connect to http://docs.example/mcp: no route to host; check the network connection"},
		"no dial":     {&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, ""},
		"other":       {errors.New("other"), ""},
	} {
		if got := explainNetwork("http://docs.example/mcp", c.err); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
