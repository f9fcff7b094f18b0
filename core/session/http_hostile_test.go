package session_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func TestHTTPCredentials(t *testing.T) {
	srv := newServer(true, true)
	ts := listenOn(t, srv)
	u, _ := url.Parse(ts.URL + "/mcp")
	u.User = url.UserPassword("someone", "hunter22")
	s := dial(t, httpEntry(u.String()), session.Options{Era: session.EraLegacy})
	_ = s.Close()
	for _, m := range srv.Wire() {
		if m.Header["Authorization"] == "" {
			t.Errorf("%s without credentials", m.Method)
		}
	}
	if srv.Count("DELETE") != 1 {
		t.Errorf("%d DELETE", srv.Count("DELETE"))
	}
	for _, status := range []int{401, 403} {
		srv.Fail(sessiontest.Fault{Method: "server/discover", Status: status, Body: "no", Times: 1})
		entry := httpEntry(ts.URL)
		entry.Fallback = true
		_, err := session.Dial(t.Context(), entry, session.Options{})
		if !errors.Is(err, session.ErrAuth) || !strings.Contains(err.Error(), fmt.Sprintf(`(HTTP %d): add an Authorization header to the server's "headers"`, status)) {
			t.Errorf("%d: %v", status, err)
		}
		srv.Fail(sessiontest.Fault{Method: "server/discover", Status: status, Times: 1,
			Body: `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"token expired"}}`})
		_, err = session.Dial(t.Context(), httpEntry(u.String()), session.Options{})
		if !errors.Is(err, session.ErrAuth) || !strings.Contains(err.Error(), "check the Authorization header") || !strings.Contains(err.Error(), "token expired") {
			t.Errorf("%d with credentials: %v", status, err)
		}
	}
	if srv.Count("initialize") != 1 {
		t.Error("tried the other era after 401")
	}
}

func TestHTTPRetryAfter(t *testing.T) {
	srv := newServer(true, true)
	s := dial(t, httpEntry(listenOn(t, srv).URL), session.Options{Era: session.EraLegacy})
	srv.Fail(sessiontest.Fault{Method: "ping", Status: 429, Header: map[string]string{"Retry-After": "3"}, Times: 1, Body: "slow down"})
	srv.Fail(sessiontest.Fault{Method: "ping", Status: 503, Header: map[string]string{"Retry-After": "99999"}, Times: 1, Body: "{}"})
	for _, want := range []time.Duration{3 * time.Second, 30 * time.Second} {
		err := s.Ping(t.Context())
		if e, ok := errors.AsType[*session.RetryAfter](err); !ok || e.Wait != want {
			t.Errorf("%v, want to wait %s", err, want)
		}
	}
}

// Secrets are planted everywhere; no error or log line may contain one.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	const token, key, pass = "tok-1a2b3c4d", "key-5e6f7a8b", "pwd-9c0d1e2f"
	var logs bytes.Buffer
	var texts []string
	note := func(err error) {
		if err != nil {
			texts = append(texts, err.Error(), fmt.Sprintf("%+v", err))
		}
	}
	srv := newServer(true, true)
	ts := listenOn(t, srv)
	opts := session.Options{Era: session.EraLegacy, Logger: slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	entry := func(base string) config.Server {
		u, _ := url.Parse(base + "/mcp?api_key=" + key)
		u.User = url.UserPassword("u", pass)
		e := httpEntry(u.String())
		e.Headers = map[string]config.Secret{"X-Token": config.NewSecret("Bearer " + token)}
		e.Fallback = true
		return e
	}
	dead := httptest.NewServer(srv)
	dead.Close()
	_, err := session.Dial(t.Context(), entry(dead.URL), opts)
	note(err)
	s := dial(t, entry(ts.URL), opts)
	echo := "you sent Bearer " + token + " and " + key + " and " + pass
	for _, f := range []sessiontest.Fault{
		{Status: 500, Body: echo},
		{Status: 302, Header: map[string]string{"Location": "http://u:" + pass + "@elsewhere.test/x?api_key=" + key}},
		{Code: -32000, Message: echo},
		{Status: 200, Body: echo},
	} {
		f.Method, f.Times = "ping", 1
		srv.Fail(f)
		_, err := s.CallTool(t.Context(), "echo", nil)
		note(err)
		note(s.Ping(t.Context()))
	}
	if len(texts) < 6 {
		t.Fatalf("only %d errors were made: %q", len(texts), texts)
	}
	ts.CloseClientConnections()
	ts.Listener.Close()
	eventually(t, "the end of the session", func() bool { return s.Err() != nil })
	note(s.Err())
	_ = s.Close()
	for _, text := range append(texts, logs.String()) {
		for _, secret := range []string{token, key, pass} {
			if strings.Contains(text, secret) {
				t.Errorf("a secret in %q", text)
			}
		}
	}
}

func TestCrossOriginIsRefused(t *testing.T) {
	var hits atomic.Int32
	victim := listenOn(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	for name, h := range map[string]http.HandlerFunc{
		"redirect 307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, victim.URL+"/x", http.StatusTemporaryRedirect)
		},
		"redirect 302 same origin": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) },
		"sse endpoint": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: endpoint\ndata: %s/msg\n\n", victim.URL)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"sse endpoint of another scheme": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: endpoint\ndata: https://%s/msg\n\n", r.Host)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			entry := httpEntry(listenOn(t, h).URL)
			if strings.HasPrefix(name, "sse") {
				entry.Transport = config.TransportSSE
			}
			_, err := session.Dial(t.Context(), entry, session.Options{ConnectTimeout: time.Minute})
			if err == nil || !strings.Contains(err.Error(), "redirect") && !strings.Contains(err.Error(), "origin") {
				t.Errorf("%v", err)
			}
		})
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d requests reached the other origin", n)
	}
}

func TestHTTPBodiesAreBounded(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = io.WriteString(z, `{"x":"`)
	_, _ = io.CopyN(z, zeros{}, 16<<20)
	_ = z.Close()
	bodies := map[string]func(w http.ResponseWriter){
		"huge": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"x":"`)
			_, _ = io.CopyN(w, zeros{}, 16<<20)
		},
		"gzip bomb": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		},
		"huge event": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: ")
			_, _ = io.CopyN(w, zeros{}, 16<<20)
		},
		"huge error": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.CopyN(w, zeros{}, 16<<20)
		},
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			srv := newServer(true, true)
			ts := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					raw, _ := io.ReadAll(r.Body)
					if bytes.Contains(raw, []byte("tools/call")) {
						body(w)
						return
					}
					r.Body = io.NopCloser(bytes.NewReader(raw))
				}
				srv.ServeHTTP(w, r)
			}))
			s := dial(t, httpEntry(ts.URL), session.Options{Limits: session.Limits{MaxBody: 1 << 20, MaxLine: 1 << 20}})
			_, err := s.CallTool(t.Context(), "echo", nil)
			_, tooLarge := errors.AsType[*session.TooLargeError](err)
			_, status := errors.AsType[*session.HTTPError](err)
			if !tooLarge && !status {
				t.Errorf("%v", err)
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("the session did not survive: %v", err)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestServersThatNeverAnswer(t *testing.T) {
	t.Parallel()
	silent := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	headers := listenOn(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	for _, ts := range []*httptest.Server{silent, headers} {
		for _, tr := range []config.Transport{config.TransportHTTP, config.TransportSSE} {
			entry := httpEntry(ts.URL)
			entry.Transport, entry.Fallback = tr, true
			if _, err := session.Dial(t.Context(), entry, session.Options{ConnectTimeout: 200 * time.Millisecond}); err == nil {
				t.Errorf("%s: connected", tr)
			}
		}
	}
}
