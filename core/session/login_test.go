package session_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/login/logintest"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func guarded(t *testing.T, s *logintest.Issuer, transport config.Transport, protocol config.Protocol) (config.Server, *login.Store) {
	t.Helper()
	srv := config.Server{ID: "docs", Enabled: true, Transport: transport, Protocol: protocol, URL: config.NewSecret(s.Resource), RequestTimeout: 20 * time.Second}
	logins := login.NewStore(login.Options{Dir: filepath.Join(t.TempDir(), "logins"), Kind: login.KindFile})
	logintest.LogIn(t, logins, s, login.TargetOf(srv))
	return srv, logins
}

// Over every transport, a token is sent and renewed in the middle of a session.
func TestLoginOverEveryTransport(t *testing.T) {
	for name, c := range map[string]struct {
		transport config.Transport
		protocol  config.Protocol
	}{
		"http, legacy": {config.TransportHTTP, config.ProtocolLegacy},
		"http, modern": {config.TransportHTTP, config.ProtocolModern},
		"sse":          {config.TransportSSE, config.ProtocolAuto},
	} {
		t.Run(name, func(t *testing.T) {
			s, fake := logintest.New(t), sessiontest.New()
			s.Handler = fake
			if c.transport == config.TransportSSE {
				s.Handler = fake.SSE()
			}
			t.Cleanup(fake.Disconnect)
			srv, logins := guarded(t, s, c.transport, c.protocol)
			conn, err := session.Dial(t.Context(), srv, session.Options{Logins: logins})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for range 3 {
				if _, err := conn.List(t.Context(), catalog.Tools); err != nil {
					t.Fatal(err)
				}
				s.Expire()
			}
			if n := s.Hits("as /token"); n != 3 || s.Revoked() {
				t.Errorf("%d token requests, revoked: %t", n, s.Revoked())
			}
		})
	}
}

// A token does not follow a redirect and is redacted in texts from the server.
func TestTokensStayWithTheirServer(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		t.Errorf("a request went elsewhere, with %q", q.Header.Get("Authorization"))
	}))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"redirect": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "redirects to"},
		"echo": {func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"you sent ` + q.Header.Get("Authorization") + `"}}`))
		}, "you sent Bearer [redacted]"},
	} {
		s := logintest.New(t)
		s.Handler = c.handler
		srv, logins := guarded(t, s, config.TransportHTTP, config.ProtocolLegacy)
		_, err := session.Dial(t.Context(), srv, session.Options{Logins: logins})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "at-") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An OAuth error in a body is shown with its text, not as a JSON-RPC error with a code that the
// server did not send; a JSON-RPC error keeps its code.
func TestOAuthRefusalInBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"invalid_token","error_description":"it is too old"}`:                "needs a login (HTTP 401: it is too old): add",
		`{"error":"unauthorized"}`:                                                     "needs a login (HTTP 401: unauthorized): add",
		`{"error":"you sent wrong-token"}`:                                             "the token in the header Authorization was rejected (HTTP 401: you sent [redacted]): check",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"log in first"}}`: `(server error -32001: log in first)`,
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, body)
		}))
		srv := config.Server{ID: "docs", Enabled: true, Transport: config.TransportHTTP, Protocol: config.ProtocolLegacy, URL: config.NewSecret(s.URL)}
		if strings.Contains(body, "wrong-token") {
			srv.Headers = map[string]config.Secret{"authorization": config.NewSecret("Bearer wrong-token")}
		}
		_, err := session.Dial(t.Context(), srv, session.Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(want, "status") && strings.Contains(err.Error(), "server error") {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
		s.Close()
	}
}

// Without a login, the error has the status, the server's reason and the remedy; a header in the
// config is another remedy.
func TestRefusalsSayWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		challenge string
		headers   map[string]config.Secret
		want      string
	}{
		"oauth":  {`Bearer resource_metadata="https://h/meta", error="invalid_token", error_description="who are you"`, nil, "needs a login (HTTP 401: who are you): run mcptrack login docs"},
		"plain":  {"", nil, `needs a login (HTTP 401): run mcptrack login docs, or add an Authorization header`},
		"basic":  {`Basic realm="x"`, nil, `needs a login (HTTP 401): add an Authorization header`},
		"header": {"", map[string]config.Secret{"authorization": config.NewSecret("Bearer wrong-token")}, `the token in the header Authorization was rejected (HTTP 401): check the Authorization header`},
	} {
		s := logintest.New(t)
		s.Challenge = func() string { return c.challenge }
		srv := config.Server{ID: "docs", Enabled: true, Transport: config.TransportHTTP, Protocol: config.ProtocolLegacy, URL: config.NewSecret(s.Resource), Headers: c.headers}
		_, err := session.Dial(t.Context(), srv, session.Options{Logins: login.NewStore(login.Options{Dir: t.TempDir(), Kind: login.KindFile})})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "wrong-token") {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}
