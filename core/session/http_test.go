package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func listenOn(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(func() { ts.CloseClientConnections(); ts.Close() })
	return ts
}

func httpEntry(rawURL string) config.Server {
	return config.Server{Transport: config.TransportHTTP, URL: config.NewSecret(rawURL)}
}

func dial(t *testing.T, entry config.Server, opts session.Options) *session.Session {
	t.Helper()
	s, err := session.Dial(t.Context(), entry, opts)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// eventually waits for a condition on a real server: only polling shows it.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !backoff.Poll(ctx, 10*time.Millisecond, ok) {
		t.Fatalf("not within a minute: %s", what)
	}
}

// ends waits for the end of a session.
func ends(t *testing.T, s *session.Session) {
	t.Helper()
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Fatal("the session lives on")
	}
}

// collect merges signals until ok.
func collect(t *testing.T, s *session.Session, ok func(session.Dirty) bool) session.Dirty {
	t.Helper()
	all := session.Dirty{URIs: map[string]session.Signal{}, Lists: map[catalog.Kind]struct{}{}, Dropped: map[string]int{}}
	deadline := time.After(time.Minute)
	for !ok(all) {
		select {
		case <-s.Signals().C():
		case <-deadline:
			t.Fatalf("not signalled within a minute; so far %+v", all)
		}
		b := s.Signals().Take()
		maps.Copy(all.URIs, b.URIs)
		for k := range b.Lists {
			all.Lists[k] = struct{}{}
		}
		for r, n := range b.Dropped {
			all.Dropped[r] += n
		}
		if b.Gap != "" {
			all.Gap = b.Gap
		}
	}
	return all
}

// discoverFails makes a server of both eras answer server/discover with this status and body.
func discoverFails(status int, body string) func(*sessiontest.Fake) {
	return func(s *sessiontest.Fake) {
		s.Fail(sessiontest.Fault{Method: "server/discover", Status: status, Body: body})
	}
}

func TestHTTPEras(t *testing.T) {
	for _, tt := range []struct {
		name     string
		set      func(*sessiontest.Fake)
		opts     session.Options
		fallback bool
		want     session.Era
		push     bool
		inits    int
	}{
		{"both eras", func(*sessiontest.Fake) {}, session.Options{}, false, session.EraModern, true, 0},
		{"both eras, remembered legacy", func(*sessiontest.Fake) {}, session.Options{Era: session.EraLegacy}, false, session.EraLegacy, true, 1},
		{"legacy", func(s *sessiontest.Fake) { s.Modern = false }, session.Options{}, false, session.EraLegacy, true, 1},
		{"legacy without GET", func(s *sessiontest.Fake) { s.Modern, s.NoGET = false, true }, session.Options{}, false, session.EraLegacy, false, 1},
		{"modern only", func(s *sessiontest.Fake) { s.Legacy = false }, session.Options{}, true, session.EraModern, true, 0},
		{"modern only, wrongly remembered", func(s *sessiontest.Fake) { s.Legacy = false }, session.Options{Era: session.EraLegacy}, false, session.EraModern, true, 1},
		{"legacy, wrongly remembered", func(s *sessiontest.Fake) { s.Modern = false }, session.Options{Era: session.EraModern}, false, session.EraLegacy, true, 1},
		{"one shot, legacy", func(s *sessiontest.Fake) { s.Modern, s.NoGET = false, true }, session.Options{OneShot: true}, false, session.EraLegacy, false, 1},
		{"one shot", func(*sessiontest.Fake) {}, session.Options{OneShot: true}, false, session.EraModern, false, 0},
		{"crashes on discover", discoverFails(500, "oops"), session.Options{}, false, session.EraLegacy, true, 1},
		{"wants a session", discoverFails(400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`), session.Options{}, false, session.EraLegacy, true, 1},
		{"empty 400", discoverFails(400, ""), session.Options{}, false, session.EraLegacy, true, 1},
		{"names legacy versions", discoverFails(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2025-06-18"]}}}`), session.Options{}, false, session.EraLegacy, true, 1},
		{"a header is missing", discoverFails(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"no Mcp-Method"}}`), session.Options{}, false, "", false, 0},
		{"a capability is missing", discoverFails(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"no sampling"}}`), session.Options{}, false, "", false, 0},
		{"newer than we are", discoverFails(400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2099-01-01"]}}}`), session.Options{}, false, "", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(true, true)
			tt.set(srv)
			entry := httpEntry(listenOn(t, srv).URL + "/mcp")
			entry.Fallback = tt.fallback
			s, err := session.Dial(t.Context(), entry, tt.opts)
			if tt.want == "" {
				if err == nil || srv.Count("initialize") != 0 {
					t.Errorf("%v, %d initialize", err, srv.Count("initialize"))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			info := s.Info()
			if info.Era != tt.want || info.Push != tt.push || info.Transport != config.TransportHTTP || info.ServerName != "fake" {
				t.Errorf("info %+v", info)
			}
			if n := srv.Count("initialize"); n != tt.inits {
				t.Errorf("%d initialize", n)
			}
			if l, err := s.List(t.Context(), catalog.Resources); err != nil || len(l) != 3 {
				t.Errorf("list %v, %v", l.Keys(), err)
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("ping: %v", err)
			}
			if tt.opts.OneShot && srv.Count("GET") != 0 {
				t.Error("a one-shot session opened a stream")
			}
			if !tt.push {
				return
			}
			mustSubscribe(t, s, all)
			srv.Set("test://a", "new")
			collect(t, s, func(b session.Dirty) bool { return b.URIs["test://a"].Count > 0 })
			srv.NotifyListChanged(catalog.Prompts)
			collect(t, s, func(b session.Dirty) bool { _, ok := b.Lists[catalog.Prompts]; return ok })
		})
	}
}

func TestHTTPModernFilterChangeMakesBeforeItBreaks(t *testing.T) {
	srv := newServer(false, true)
	s := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{Era: session.EraModern})
	mustSubscribe(t, s, all)
	stop := make(chan struct{})
	sent := make(chan int)
	go func() {
		srv.NotifyUpdated("test://a")
		n := 1
		tick := time.NewTicker(100 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				sent <- n
				return
			case <-tick.C:
				srv.NotifyUpdated("test://a")
				n++
			}
		}
	}()
	for i := range 10 {
		f := all
		f.URIs = append(slices.Clone(all.URIs), fmt.Sprintf("test://n%d", i))
		mustSubscribe(t, s, f)
	}
	close(stop)
	n := <-sent
	b := collect(t, s, func(b session.Dirty) bool { return b.URIs["test://a"].Count > 0 })
	eventually(t, "every update", func() bool {
		more := s.Signals().Take()
		sig := b.URIs["test://a"]
		sig.Count += more.URIs["test://a"].Count
		b.URIs["test://a"] = sig
		return sig.Count >= n
	})
	if b.Gap != "" {
		t.Errorf("gap %q", b.Gap)
	}
	eventually(t, "one listen is left", func() bool { return srv.Listens() == 1 })
}

func TestHTTPModernStreamCut(t *testing.T) {
	t.Parallel()
	srv := newServer(false, true)
	s := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{Era: session.EraModern})
	mustSubscribe(t, s, all)
	srv.Disconnect()
	collect(t, s, func(b session.Dirty) bool { return b.Gap != "" })
	mustSubscribe(t, s, all)
	srv.Set("test://b", "x")
	collect(t, s, func(b session.Dirty) bool { return b.URIs["test://b"].Count > 0 })
}

func TestHTTPModernRefusedMethodIsNoLostSession(t *testing.T) {
	srv := newServer(false, true)
	s := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{Era: session.EraModern})
	srv.Fail(sessiontest.Fault{Method: "subscriptions/listen", Code: -32601, Message: "no", Status: 404})
	if _, err := s.Subscribe(t.Context(), all); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("subscribe: %v", err)
	}
	if _, err := s.Read(t.Context(), "test://none"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("read: %v", err)
	}
	if _, err := s.Read(t.Context(), "test://a"); err != nil {
		t.Errorf("read: %v", err)
	}
}

func TestHTTPModernHeaders(t *testing.T) {
	srv := newServer(false, true)
	srv.SetQuietly("test://ä b", "x")
	s := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{Era: session.EraModern})
	if _, err := s.Read(t.Context(), "test://ä b"); err != nil {
		t.Fatal(err)
	}
	w := srv.Wire()
	h := w[len(w)-1].Header
	if h["Mcp-Protocol-Version"] != "2026-07-28" || h["Mcp-Method"] != "resources/read" || h["Mcp-Name"] != "=?base64?dGVzdDovL8OkIGI=?=" {
		t.Errorf("headers %v", h)
	}
}

func TestHTTPSessionLost(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*sessiontest.Fake){
		"404": func(s *sessiontest.Fake) { s.Fail(sessiontest.Fault{Method: "ping", Status: 404, Body: "gone"}) },
		"400": func(s *sessiontest.Fake) {
			s.Fail(sessiontest.Fault{Method: "ping", Status: 400, Body: "Bad Request: No valid session ID provided"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(true, true)
			s := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{Era: session.EraLegacy})
			srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
			waiting := make(chan error, 1)
			go func() { _, err := s.CallTool(t.Context(), "echo", nil); waiting <- err }()
			eventually(t, "the call", func() bool { return srv.Count("tools/call") == 1 })
			set(srv)
			if err := s.Ping(t.Context()); err == nil {
				t.Error("ping succeeded")
			}
			ends(t, s)
			if _, ok := errors.AsType[*session.EndError](s.Err()); !ok {
				t.Errorf("ended with %v", s.Err())
			}
			if _, ok := errors.AsType[*session.EndError](<-waiting); !ok {
				t.Error("the waiting call did not end with the session")
			}
		})
	}
	t.Run("GET refused after a restart", func(t *testing.T) {
		srv := newServer(true, true)
		s := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{Era: session.EraLegacy})
		srv.ForgetSessions()
		ends(t, s)
	})
}

// A server that supports no method anymore has forgotten the session. One that has no ping has not, and is
// asked for a list once.
func TestHTTPPingIsNotSupported(t *testing.T) {
	t.Parallel()
	srv := newServer(true, false)
	s := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{Era: session.EraLegacy})
	srv.Fail(sessiontest.Fault{Method: "ping", Code: -32601, Message: "Method not found"})
	for range 2 {
		if err := s.Ping(t.Context()); err != nil || srv.Count("resources/list") != 1 {
			t.Errorf("%v; asked for the list %d times", err, srv.Count("resources/list"))
		}
	}
	forgotten := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{Era: session.EraLegacy})
	srv.Fail(sessiontest.Fault{Code: -32601, Message: "Method not found"})
	if err := forgotten.Ping(t.Context()); err == nil {
		t.Error("ping succeeded")
	}
	ends(t, forgotten)
}

func TestHTTPSilentRestartIsSubscribedAgain(t *testing.T) {
	t.Parallel()
	srv := newServer(true, false)
	s := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{})
	mustSubscribe(t, s, all)
	srv.ForgetSubscriptions()
	collect(t, s, func(b session.Dirty) bool { return strings.Contains(b.Gap, "reopened") })
	mustSubscribe(t, s, all)
	if got := srv.Count("resources/subscribe"); got < 4 {
		t.Errorf("%d subscribe requests", got)
	}
	srv.Set("test://a", "x")
	collect(t, s, func(b session.Dirty) bool { return b.URIs["test://a"].Count > 0 })
}

// A server of 2024-11-05 that never answers unknown requests is reached over SSE.
func TestSSEAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sse := newServer(true, false).SSE()
		entry := httpEntry("http://server.test/sse")
		entry.Fallback = true
		s, _ := dialThrough(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.RawQuery == "" {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), "server/discover") {
					<-r.Context().Done()
					return
				}
				http.Error(w, "not here", http.StatusMethodNotAllowed)
				return
			}
			sse.ServeHTTP(w, r)
		}), entry, session.Options{ConnectTimeout: 8 * time.Second})
		if info := s.Info(); info.Transport != config.TransportSSE {
			t.Errorf("info %+v", info)
		}
	})
}

func TestSSE(t *testing.T) {
	for _, tr := range []config.Transport{config.TransportSSE, config.TransportHTTP} {
		srv := newServer(true, false)
		entry := httpEntry(listenOn(t, srv.SSE()).URL + "/sse?k=v")
		entry.Transport, entry.Fallback = tr, true
		s := dial(t, entry, session.Options{})
		if info := s.Info(); info.Transport != config.TransportSSE || !info.Push || info.Era != session.EraLegacy {
			t.Errorf("info %+v", info)
		}
		mustSubscribe(t, s, all)
		srv.Set("test://a", "x")
		collect(t, s, func(b session.Dirty) bool { return b.URIs["test://a"].Count > 0 })
		srv.Broadcast(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ping"})
		eventually(t, "an answer to ping", func() bool {
			return slices.ContainsFunc(srv.Wire(), func(m sessiontest.Message) bool {
				return m.Method == "" && strings.Contains(string(m.Raw), `"id":1,"result"`)
			})
		})
		srv.Disconnect()
		ends(t, s)
	}
}

func TestHTTPHangingDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, false)
		srv.NoGET = true
		srv.Fail(sessiontest.Fault{Method: "server/discover", Silent: true})
		for _, era := range []session.Era{"", session.EraModern} {
			start := time.Now()
			s, _ := dialThrough(t, srv, httpEntry("http://server.test/mcp"), session.Options{Era: era})
			if s.Info().Era != session.EraLegacy || s.Info().Push || time.Since(start) > 8*time.Second {
				t.Errorf("%+v after %v", s.Info(), time.Since(start))
			}
		}
	})
}
