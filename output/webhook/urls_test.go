package webhook

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func urls(t testing.TB, globs ...string) URLs {
	t.Helper()
	u, err := ParseURLs(globs)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// local returns all ports of this machine.
func local() []netip.AddrPort {
	return []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("[::1]:0")}
}

// A wildcard matches only within its own part of the URL.
func TestURLGlobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob    string
		yes, no []string
	}{
		{"https://*.host/**", []string{"https://a.host/", "https://A.HOST/x/y?z=1", "https://a.host:443/x", "https://a.host", "https://a.host:/x"}, []string{
			"https://victim?x=.host/", "https://victim/.host/", "https://victim/x.host/", "https://victim#.host/", "https://a:b@c.host/", "https://victim@a.host/", "https://victim:443.host/", "https://a.b.host/",
			"https://host/", "https://.host/", "https://a.host./", "https://a.host:8443/", "http://a.host/", "https://a.hosts/", "https://victim\\.host/", "https://a..host/", "https:a.host/",
		}},
		{"https://**.host/hook", []string{"https://a.host/hook", "https://a.b.c.host/hook"}, []string{"https://host/hook", "https://a.host/hook?x", "https://a.host/hook?", "https://a.host/hook/x", "https://a.host/", "https://victim?.host/hook"}},
		{"https://hooks-*.example/a/*/b", []string{"https://hooks-1.example/a/x/b"}, []string{"https://hooks-1.x.example/a/x/b", "https://hooks-.example.evil/a/x/b", "https://hooks-1.example/a/x/y/b", "https://hooks-1.example/a/x?/b"}},
		{"https://{a,b.c}.example", []string{"https://a.example/x?y", "https://b.c.example"}, []string{"https://c.example/", "https://a.example:444/"}},
		{"https://h/a/**", []string{"https://h/a", "https://h/a/b?c", "https://h/a/b%20c"}, []string{
			"https://h/a/../b", "https://h/a/%2e%2e/b", "https://h/a/..%2fb", "https://h/a/x%5c..%5c..%5cb", "https://h/a/%252e%252e/b", "https://h/a/..;x/b", "https://h/b",
		}},
		{"https://h:8443/**", []string{"https://h:8443/x"}, []string{"https://h/x", "https://h:84430/x"}},
		{"https://h:*/**", []string{"https://h:8443/x", "https://h/x"}, []string{"https://h:8443@victim/x"}},
		{"HTTPS://1.2.3.4/**", []string{"https://1.2.3.4/x"}, []string{"https://1.2.3.4.evil/x", "https://11.2.3.4/x"}},
		{"http://127.0.0.1:9000/**", []string{"http://127.0.0.1:9000/x"}, []string{"http://127.0.0.1:9001/x", "http://127.0.0.1/x", "http://127.0.0.1:9000.evil/x", "https://127.0.0.1:9000/x", "http://localhost:9000/x"}},
		{"http://[::1]", []string{"http://[::1]/x", "http://[::1]:80"}, []string{"http://[::1]:81/", "http://127.0.0.1/"}},
	} {
		u := urls(t, c.glob)
		for want, list := range map[bool][]string{true: c.yes, false: c.no} {
			for _, raw := range list {
				if got := u.match(raw); got != want {
					t.Errorf("%s matches %s: %t", c.glob, raw, got)
				}
			}
		}
	}
	for glob, want := range map[string]string{
		"": "https://", "**": "https://", "*://h/": "https://", "ftp://h/": "https://", "h": "https://", "http://h/**": "http:// is only for 127.0.0.1 and [::1]", "http://127.0.0.2/": "only for 127.0.0.1", "http://*/": "only for",
		"https://u@h/": "a query, fragment or user", "https://h/?x=*": "a query", "https://h/#x": "a query", "https://h:x/": "the port", "https://h:0/": "the port", "https://h:99999/": "the port", "https://h:8*/": "the port",
		"https://": "the host is invalid", "https://[a/": "the host", "https://a..b/": "the host", "https://{a/": "malformed", "https://h/[a": "malformed", "https://h/" + strings.Repeat("a", 2000): "malformed",
	} {
		if _, err := ParseURLs([]string{glob}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", glob, err, want)
		}
	}
}

// A glob for this machine opens its own port only, and only for URLs with the address itself.
func TestLocalPorts(t *testing.T) {
	t.Parallel()
	served := func() *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(s.Close)
		return s
	}
	opened, other := served(), served()
	u := urls(t, opened.URL+"/**", "https://hooks.example/**")
	s := NewSender(u.Local())
	defer s.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(opened.URL, "http://"))
	for url, want := range map[string]Error{
		opened.URL + "/x": "", other.URL + "/x": ConnectionRefused, "http://localhost:" + port + "/x": ConnectionRefused, "http://127.0.0.2:" + port + "/x": ConnectionRefused, "http://[::ffff:127.0.0.1]:" + port + "/x": ConnectionRefused,
	} {
		if got, err := s.post(t.Context(), new(responder), &message{url: url, body: []byte("{}")}, nil); err != nil || got.err != want {
			t.Errorf("%s: %+v, %v; want %q", url, got, err, want)
		}
		if err := s.guard.checkURL(url); (err == nil) != (want == "") {
			t.Errorf("%s: checkURL returns %v", url, err)
		}
	}
	if got := urls(t, "http://127.0.0.1:*", "http://[::1]/x", "https://127.0.0.1:9443", "https://h").Local(); !slices.Equal(got, []netip.AddrPort{
		netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("[::1]:80"), netip.MustParseAddrPort("127.0.0.1:9443")}) {
		t.Error(got)
	}
}

// FuzzURL checks that an accepted URL is an HTTPS request without credentials to the checked host.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{hook, "https://a:8443/x?y=z", "https://[2606:4700::1]/", "https://a@b/", "https://a\\@b/", "http://127.0.0.1/", "https://a/#", "https://%61/", "https:a", "//a", "https://a:443:1/"} {
		f.Add(raw)
	}
	g := new(guard)
	f.Fuzz(func(t *testing.T, raw string) {
		if g.checkURL(raw) != nil {
			return
		}
		q, err := http.NewRequest(http.MethodPost, raw, nil)
		if err != nil {
			return // nothing is sent
		}
		u, err := url.Parse(raw)
		if err != nil || !strings.HasPrefix(strings.ToLower(raw), "https://") || q.URL.Scheme != "https" || q.URL.Hostname() != u.Hostname() || q.URL.Port() != u.Port() || q.URL.User != nil || u.Hostname() == "" || len(raw) > maxURL {
			t.Errorf("%q: %+v", raw, q.URL)
		}
	})
}
