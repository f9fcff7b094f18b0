package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// E3: only public addresses may be dialled.
func TestGuard(t *testing.T) {
	t.Parallel()
	g := new(guard)
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.16.0.1", "192.0.0.8", "192.0.2.1",
		"192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.7", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "fc00::1", "fe80::1%eth0", "ff02::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "4000::1",
	} {
		if g.allows(netip.MustParseAddr(s)) {
			t.Errorf("%s may be dialled", s)
		}
	}
	for _, s := range []string{"1.1.1.1", "8.8.8.8", "172.15.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"} {
		if !g.allows(netip.MustParseAddr(s)) {
			t.Errorf("%s may not be dialled", s)
		}
	}
	if (&guard{local()}).allows(netip.MustParseAddr("127.0.0.1")) {
		t.Error("a name may resolve to an open address")
	}
}

// E3: URLs that are rejected by their text.
func TestURLs(t *testing.T) {
	t.Parallel()
	for raw, ok := range map[string]bool{
		"https://hooks.example/h/7": true, "https://hooks.example": true, "https://hooks.example:443/x": true, "https://hooks.example:8443/x?y=z": true,
		"http://hooks.example/h": false, "http://127.0.0.1/h": false, "http://localhost/h": false, "ftp://hooks.example": false, "hooks.example/h": false,
		"https://": false, "https:///x": false, "https://user@hooks.example/": false, "https://u:p@hooks.example/": false, "https://hooks.example/#x": false, "https://hooks.example/#": false,
		"https://hooks.example:22/": false, "https://hooks.example:80/": false, "https://hooks.example:99999/": false, "https://hooks.example:x/": false,
		"https://hooks.example/ x": false, "https://hooks.example/\n": false, "https://h\u00f6oks.example/": false, "": false, "https:hooks.example": false,
		"https://hooks.example/" + strings.Repeat("x", 2048): false,
	} {
		if err := new(guard).checkURL(raw); (err == nil) != ok {
			t.Errorf("%q: %v", raw[:min(len(raw), 60)], err)
		}
	}
	for raw, ok := range map[string]bool{"http://127.0.0.1:8080/x": true, "http://[::1]:8080/x": true, "http://localhost:8080/x": false, "http://127.0.0.2/x": false, "http://10.0.0.1/x": false} {
		if err := (&guard{local()}).checkURL(raw); (err == nil) != ok {
			t.Errorf("for tests: %q: %v", raw, err)
		}
	}
}

// E3: the dialled address is checked, whatever the name resolved to before, and the proxy from the
// environment is not used. E5: a forbidden address looks like a closed port.
func TestDialledAddressIsChecked(t *testing.T) {
	var connections atomic.Int32
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: ln, Config: &http.Server{ConnState: func(net.Conn, http.ConnState) { connections.Add(1) }, Handler: http.NotFoundHandler()}}
	srv.Start()
	defer srv.Close()
	t.Setenv("HTTP_PROXY", srv.URL)
	t.Setenv("HTTPS_PROXY", srv.URL)
	s := NewSender(nil)
	defer s.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for _, url := range []string{"https://localhost:" + port, "https://127.0.0.1:" + port, "http://[::ffff:127.0.0.1]:" + port, "http://" + closed.Addr().String()} {
		r, err := s.post(t.Context(), new(responder), &message{url: url, body: []byte("{}")}, nil)
		if err != nil || r.err != ConnectionRefused {
			t.Errorf("%s: %+v, %v", url, r, err)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	if s.client.Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy would connect without the check")
	}
	// The operator's URLs may be private.
	if r, err := s.post(t.Context(), new(responder), &message{url: srv.URL, body: []byte("{}"), private: true}, nil); err != nil || r.err != HTTP4xx {
		t.Errorf("%+v, %v", r, err)
	}
}

// E4: redirects are failures and are not followed. E5: outcomes are categories.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	followed := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client left
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/followed", http.StatusTemporaryRedirect)
		case "/followed":
			followed = true
		case "/large":
			w.Header().Set("X-Large", strings.Repeat("a", 1<<20))
		case "/slow":
			<-r.Context().Done()
		case "/endless":
			w.WriteHeader(200)
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		default:
			var status int
			_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(status)
		}
	}))
	defer srv.Close()
	s := NewSender(local())
	defer s.Close()
	for path, want := range map[string]result{
		"/200": {}, "/204": {}, "/299": {}, "/410": {drop: true}, "/413": {drop: true}, "/endless": {},
		"/400": {err: HTTP4xx, retryAfter: time.Hour}, "/425": {err: HTTP4xx, retryAfter: time.Hour}, "/503": {err: HTTP5xx, retryAfter: time.Hour},
		"/redirect": {err: HTTP4xx}, "/slow": {err: Timeout}, "/large": {err: ConnectionRefused},
	} {
		s.client.Timeout = time.Minute
		if path == "/slow" {
			s.client.Timeout = time.Second
		}
		got, err := s.post(t.Context(), new(responder), &message{url: srv.URL + path, body: []byte("{}")}, nil)
		if len(got.answer) > maxAnswer {
			t.Errorf("%s: %d bytes were read", path, len(got.answer))
		}
		if got.answer = nil; err != nil || got.err != want.err || got.drop != want.drop || got.retryAfter != want.retryAfter {
			t.Errorf("%s: %+v, %v; want %+v", path, got, err, want)
		}
	}
	if followed {
		t.Error("a redirect was followed")
	}
	s.client.Timeout = time.Minute
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	if got, err := s.post(t.Context(), new(responder), &message{url: secure.URL, body: []byte("{}")}, nil); err != nil || got.err != TLSError {
		t.Errorf("an unknown certificate: %+v, %v", got, err)
	}
}

// E9: at most four concurrent POSTs to one host; a host that hangs takes no slots of others.
func TestSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSender(local())
		var release []func()
		for range promptPerHost {
			f, err := s.acquire(t.Context(), "a", new(responder))
			if err != nil {
				t.Fatal(err)
			}
			release = append(release, f)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := s.acquire(ctx, "a", new(responder)); err == nil {
			t.Error("a fifth attempt at the host")
		}
		for i := range promptInTotal - promptPerHost {
			f, err := s.acquire(t.Context(), fmt.Sprint("host", i), new(responder))
			if err != nil {
				t.Fatal(err)
			}
			release = append(release, f)
		}
		if _, err := s.acquire(ctx, "another", new(responder)); err == nil {
			t.Error("more than 64 concurrent attempts")
		}
		for _, f := range release {
			f()
		}
		if len(s.hosts) != 0 || s.all.isPrompt+s.all.isLate+len(s.all.held) != 0 {
			t.Errorf("left: %v", s.hosts)
		}
	})
}

// Other ports or spellings of a host do not give a client more slots.
func TestSlotsOfAllPorts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewSender(nil)
		for range promptPerHost {
			f, err := s.acquire(t.Context(), "hooks.example", new(responder))
			if err != nil {
				t.Fatal(err)
			}
			defer f()
		}
		sent := errors.New("it is sent")
		for _, url := range []string{"https://hooks.example/", "https://HOOKS.example:8443/", "https://hooks.example.:443/"} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := s.post(ctx, new(responder), &message{url: url}, func() error { return sent }); err == sent {
				t.Errorf("a fifth attempt at %s", url)
			}
		}
	})
}
