package guarded_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcptrack/mcptrack/core/guarded"
	"github.com/mcptrack/mcptrack/core/ipscope/ipscopetest"
	"github.com/mcptrack/mcptrack/core/printable"
)

func newClient(t *testing.T, server string, resolver *net.Resolver, proxy func(*http.Request) (*url.URL, error)) (client *http.Client, check func(host, address string) error) {
	g := guarded.New(t.Context(), guarded.Options{Server: server, Resolver: resolver, Proxy: proxy})
	return g.Client(), g.CheckDial
}

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// listening returns the port of a listener on this machine and the number of its connections.
func listening(t *testing.T) (port string, connections *atomic.Int32) {
	t.Helper()
	connections = new(atomic.Int32)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
	return port, connections
}

func get(t *testing.T, client *http.Client, address string) error {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := client.Do(q)
	if err == nil {
		_ = p.Body.Close()
	}
	return err
}

// A public server can lead us to no address that a webhook could not reach either: neither by
// naming the address nor by a name that resolves to it.
func TestPublicServerReachesOnlyPublicAddresses(t *testing.T) {
	for _, address := range ipscopetest.NotPublic() {
		client, check := newClient(t, "https://server.example/mcp", ipscopetest.Resolver(func(host string, _ int) []string {
			return map[string][]string{"server.example": {"93.184.215.14"}, "as.example": {address}}[host]
		}), noProxy)
		for _, host := range []string{net.JoinHostPort(address, "443"), "as.example"} {
			if err := get(t, client, "https://"+host+"/"); err == nil || !strings.Contains(err.Error(), "private address; a public server must not refer to it") {
				t.Errorf("%s: %v", host, err)
			}
		}
		if err := check("as.example", net.JoinHostPort(address, "443")); err == nil {
			t.Errorf("%s may be dialled", address)
		}
	}
}

// A host is private only if all its addresses are: one private record does not let a public server
// name private addresses.
func TestOnePrivateAddressIsNotAPrivateServer(t *testing.T) {
	port, connections := listening(t)
	const public4, public6 = "93.184.215.14", "2606:4700::1111"
	for name, c := range map[string]struct {
		records []string
		private bool
	}{
		"private":          {[]string{"10.0.0.1"}, true},
		"private twice":    {[]string{"10.0.0.1", "fd00::1"}, true},
		"public":           {[]string{public4}, false},
		"public twice":     {[]string{public4, public6}, false},
		"mixed":            {[]string{"10.0.0.1", public4}, false},
		"mixed, reversed":  {[]string{public4, "10.0.0.1"}, false},
		"mixed families":   {[]string{public4, "fd00::1"}, false},
		"public by NAT64":  {[]string{"64:ff9b::808:808", "10.0.0.1"}, false},
		"private by NAT64": {[]string{"64:ff9b::a00:1", "10.0.0.1"}, true},
		"no address":       {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			resolver := ipscopetest.Resolver(func(host string, _ int) []string {
				switch host {
				case "server.example":
					return c.records
				case "as.example":
					return []string{"127.0.0.1"}
				}
				return nil
			})
			before := connections.Load()
			client, check := newClient(t, "https://server.example/mcp", resolver, noProxy)
			err := get(t, client, "https://as.example:"+port+"/")
			if refused := err != nil && strings.Contains(err.Error(), "a public server must not refer to it"); refused == c.private || connections.Load() > before != c.private {
				t.Errorf("%v, %d connections", err, connections.Load()-before)
			}
			if err := get(t, client, "https://127.0.0.1:"+port+"/"); strings.Contains(err.Error(), "a public server must not refer to it") == c.private {
				t.Error(err)
			}
			for _, host := range []string{"server.example", "SERVER.example", "as.example"} {
				for _, private := range []string{"10.0.0.1", "127.0.0.1", "[fd00::1]", "[64:ff9b::a00:1]"} {
					if err := check(host, private+":443"); (err == nil) != c.private {
						t.Errorf("%s at %s: %v", host, private, err)
					}
				}
				// A private server may talk to a public authorization server, but is none itself.
				for _, public := range []string{public4, "[" + public6 + "]"} {
					if err := check(host, public+":443"); (err == nil) != (!c.private || host == "as.example") {
						t.Errorf("%s at %s: %v", host, public, err)
					}
				}
			}
		})
	}
}

// A name that resolves differently when it is dialled than when it was checked reaches nothing, in
// either direction.
func TestNamesThatResolveDifferently(t *testing.T) {
	port, connections := listening(t)
	for name, c := range map[string]struct{ first, then, want string }{
		"a server that turns public":  {"127.0.0.1", "93.184.215.14", "had only private addresses before"},
		"a server that turns private": {"93.184.215.14", "127.0.0.1", "has a private address"},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := newClient(t, "https://server.example:"+port+"/mcp", ipscopetest.Resolver(func(host string, nth int) []string {
				switch {
				case host != "server.example":
					return nil
				case nth == 0:
					return []string{c.first}
				}
				return []string{c.then}
			}), noProxy)
			if err := get(t, client, "https://server.example:"+port+"/.well-known/oauth-protected-resource"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
		})
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// A proxy of the environment is used. Requests that bypass it are still checked, and names of our
// own network are not sent to it.
func TestProxies(t *testing.T) {
	port, direct := listening(t)
	var asked atomic.Value // what the proxy was asked for last
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked.Store(q.Host)
		http.Error(w, "no", http.StatusForbidden)
	}))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	through := func(q *http.Request) (*url.URL, error) {
		if q.URL.Hostname() == "direct.example" { // as in NO_PROXY
			return nil, nil
		}
		return at, nil
	}
	resolver := ipscopetest.Resolver(func(host string, _ int) []string {
		return map[string][]string{"server.example": {"10.0.0.1"}, "direct.example": {"127.0.0.1"}, "intranet.example": {"10.0.0.2"},
			"mixed.example": {"93.184.215.14", "10.0.0.2"}, "public.example": {"93.184.215.14"}}[host]
	})
	client, _ := newClient(t, "https://server.example/mcp", resolver, through)
	for host, want := range map[string]string{
		"direct.example:" + port: "has a private address", "intranet.example": "has a private address", "mixed.example": "has a private address",
		"10.0.0.2": "is a private address", "public.example": "Forbidden", "unknown.example": "Forbidden",
	} {
		asked.Store("")
		err := get(t, client, "https://"+host+"/")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", host, err)
		}
		if got := asked.Load() == host+":443"; got != (want == "Forbidden") {
			t.Errorf("%s: the proxy was asked for %q", host, asked.Load())
		}
	}
	if n := direct.Load(); n != 0 {
		t.Errorf("%d connections past the proxy", n)
	}
	private, _ := newClient(t, "https://direct.example/mcp", resolver, through)
	if err := get(t, private, "https://intranet.example/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("a private server: %v", err)
	}
}

// With OwnHost, a private server refers to no private host but its own, whatever a name resolves to;
// it may still refer to public hosts.
func TestOwnHost(t *testing.T) {
	port, connections := listening(t)
	resolver := ipscopetest.Resolver(func(host string, _ int) []string {
		return map[string][]string{"intranet.example": {"127.0.0.1"}, "other.example": {"127.0.0.1"}, "db.example": {"10.0.0.2"}, "public.example": {"93.184.215.14"}}[host]
	})
	for _, c := range []struct{ server, host, want string }{
		{"http://127.0.0.1:" + port, "http://localhost:" + port, ""},
		{"http://localhost:" + port, "http://127.0.0.1:" + port, ""},
		{"http://intranet.example:" + port, "http://intranet.example:" + port, ""},
		{"http://127.0.0.1:" + port, "https://10.0.0.2", "is a private address of another host"},
		{"http://127.0.0.1:" + port, "https://169.254.169.254", "is a private address of another host"},
		{"http://127.0.0.1:" + port, "https://db.example", "is not the server's own"},
		{"https://intranet.example", "https://127.0.0.1:" + port, "is a private address of another host"},
		{"https://intranet.example", "https://other.example:" + port, "is not the server's own"},
		{"https://public.example", "https://127.0.0.1:" + port, "a public server must not refer to it"},
		{"https://public.example", "https://other.example:" + port, "a public server must not refer to it"},
	} {
		g := guarded.New(t.Context(), guarded.Options{Server: c.server, OwnHost: true, Resolver: resolver, Proxy: noProxy})
		u, err := url.Parse(c.host)
		if err != nil {
			t.Fatal(err)
		}
		before := connections.Load()
		for which, err := range map[string]error{"request": get(t, g.Client(), c.host), "check": g.Check(t.Context(), u)} {
			if got := printable.Reason(err, 500); c.want == "" && err != nil || !strings.Contains(got, c.want) {
				t.Errorf("%s of %s to %s: %v", which, c.server, c.host, err)
			}
		}
		if reached := connections.Load() > before; reached != (c.want == "") {
			t.Errorf("%s reaches %s: %t", c.server, c.host, reached)
		}
	}
	g := guarded.New(t.Context(), guarded.Options{Server: "http://127.0.0.1", OwnHost: true, Resolver: resolver, Proxy: noProxy})
	if err := g.Check(t.Context(), &url.URL{Scheme: "https", Host: "public.example"}); err != nil {
		t.Error(err)
	}
}
