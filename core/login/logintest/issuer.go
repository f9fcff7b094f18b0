// Package logintest provides an authorization server, and an MCP server that requires its tokens,
// for tests. The authorization server is strict: each code and refresh token is valid only once,
// and a second use revokes everything obtained with it, as RFC 9700 requires. Tests can inject
// faults.
package logintest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/login"
)

// Issuer is an authorization server together with an MCP server that it protects.
type Issuer struct {
	Resource string // URL of the protected server
	URL      string // URL of the issuer
	Settings

	mu sync.Mutex // guards the fields below
	book
}

// Settings configures an Issuer. It must be set before the first request.
type Settings struct {
	Life      time.Duration // lifetime of access tokens; default 1 h
	Scopes    []string      // scopes in the challenge
	NoDCR     bool
	CIMD      bool
	NoPRM     bool                 // publish no metadata of the protected server
	Challenge func() string        // replaces the default WWW-Authenticate
	PRM       func(map[string]any) // modifies the metadata of the protected server
	Meta      func(map[string]any) // modifies the metadata of the authorization server
	Answer    func(url.Values)     // modifies the query of the redirect
	Handler   http.Handler         // handler of the protected server; by default it responds with status 200
	Clients   map[string]string    // secrets of configured clients, keyed by client ID
	Redirects map[string][]string  // redirect URIs allowed for a client; by default any
}

// book records which tokens were issued and which requests were received.
type book struct {
	codes   map[string]grant
	refresh map[string]string // refresh token → family
	spent   map[string]string
	revoked map[string]bool // revoked token families
	access  map[string]access
	hits    map[string]int
	forms   []url.Values // forms of the token requests
	stray   []string     // hosts and paths that received a token by mistake
	answer  func(http.ResponseWriter, *http.Request) bool
}

type grant struct {
	challenge, redirect, client, scope, resource string
}

type access struct {
	family, scope string
	expires       time.Time
}

// New starts both servers, which run until the test ends.
func New(t testing.TB) *Issuer {
	s := &Issuer{Settings: Settings{Life: time.Hour, Clients: map[string]string{}}, book: book{codes: map[string]grant{}, refresh: map[string]string{}, spent: map[string]string{},
		revoked: map[string]bool{}, access: map[string]access{}, hits: map[string]int{}}}
	as := http.NewServeMux()
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		as.HandleFunc("GET "+path, s.metadata)
	}
	as.HandleFunc("GET /authorize", s.authorize)
	as.HandleFunc("POST /token", s.token)
	as.HandleFunc("POST /register", s.register)
	as.HandleFunc("POST /revoke", s.revoke)
	asServer := httptest.NewServer(s.counting("as", as))
	t.Cleanup(asServer.Close)
	rs := http.NewServeMux()
	rs.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", s.resource)
	rs.HandleFunc("/", s.protected)
	rsServer := httptest.NewServer(s.counting("rs", rs))
	t.Cleanup(rsServer.Close)
	s.URL, s.Resource = asServer.URL, rsServer.URL+"/mcp"
	return s
}

func (s *Issuer) counting(who string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		s.mu.Lock()
		s.hits[who+" "+q.URL.Path]++
		if who == "as" && strings.HasPrefix(q.Header.Get("Authorization"), "Bearer ") {
			s.stray = append(s.stray, q.Host+q.URL.Path)
		}
		s.mu.Unlock()
		next.ServeHTTP(w, q)
	})
}

// Hits returns the number of requests to a path, such as "as /token" or "rs /mcp".
func (s *Issuer) Hits(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits[path]
}

// Issued returns the number of access tokens issued so far.
func (s *Issuer) Issued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.access)
}

// Forms returns the forms of all token requests.
func (s *Issuer) Forms() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.forms)
}

// Stray returns the hosts and paths that received a token by mistake.
func (s *Issuer) Stray() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stray)
}

// AnswerToken sets a handler for token requests. If the handler returns false, the request is
// processed normally. nil removes the handler.
func (s *Issuer) AnswerToken(answer func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Revoke revokes all tokens issued so far.
func (s *Issuer) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, family := range s.refresh {
		s.revoked[family] = true
	}
	for _, a := range s.access {
		s.revoked[a.family] = true
	}
}

// Expire makes all access tokens issued so far expire.
func (s *Issuer) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, a := range s.access {
		a.expires = time.Now()
		s.access[token] = a
	}
}

// Revoked reports whether a refresh token was used twice, or Revoke was called.
func (s *Issuer) Revoked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.revoked) > 0
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (s *Issuer) metadata(w http.ResponseWriter, _ *http.Request) {
	m := map[string]any{"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
		"revocation_endpoint": s.URL + "/revoke", "response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported":          []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt"},
		"authorization_response_iss_parameter_supported": true, "client_id_metadata_document_supported": s.CIMD}
	if !s.NoDCR {
		m["registration_endpoint"] = s.URL + "/register"
	}
	if s.Meta != nil {
		s.Meta(m)
	}
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	writeJSON(w, http.StatusOK, m)
}

func (s *Issuer) resource(w http.ResponseWriter, q *http.Request) {
	if s.NoPRM {
		http.NotFound(w, q)
		return
	}
	m := map[string]any{"resource": s.Resource, "authorization_servers": []string{s.URL}}
	if s.PRM != nil {
		s.PRM(m)
	}
	writeJSON(w, http.StatusOK, m)
}

// protected handles requests to the protected server, and requires a valid token.
func (s *Issuer) protected(w http.ResponseWriter, q *http.Request) {
	token, _ := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	a, known := s.access[token]
	valid := known && time.Now().Before(a.expires) && !s.revoked[a.family]
	s.mu.Unlock()
	if !valid {
		challenge := fmt.Sprintf(`Bearer resource_metadata=%q`, strings.TrimSuffix(s.Resource, "/mcp")+"/.well-known/oauth-protected-resource/mcp")
		if s.NoPRM {
			challenge = "Bearer"
		}
		if len(s.Scopes) > 0 {
			challenge += fmt.Sprintf(`, scope=%q`, strings.Join(s.Scopes, " "))
		}
		if token != "" {
			challenge += `, error="invalid_token", error_description="the token is not valid"`
		}
		if s.Challenge != nil {
			challenge = s.Challenge()
		}
		w.Header().Set("WWW-Authenticate", challenge)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if s.Handler != nil {
		s.Handler.ServeHTTP(w, q)
	}
}

func (s *Issuer) register(w http.ResponseWriter, q *http.Request) {
	var m map[string]any
	if json.NewDecoder(q.Body).Decode(&m) != nil {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": "invalid_client_metadata"})
		return
	}
	id := "client-" + rand.Text()
	m["client_id"] = id
	s.mu.Lock()
	s.Clients[id] = ""
	s.mu.Unlock()
	writeJSON(w, http.StatusCreated, m)
}

// authorize handles authorization requests and grants consent immediately.
func (s *Issuer) authorize(w http.ResponseWriter, q *http.Request) {
	in := q.URL.Query()
	if in.Get("code_challenge_method") != "S256" || in.Get("state") == "" || in.Get("resource") != s.Resource {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	if registered, ok := s.Redirects[in.Get("client_id")]; ok && !slices.Contains(registered, in.Get("redirect_uri")) {
		http.Error(w, "redirect_uri mismatch", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	s.mu.Lock()
	s.codes[code] = grant{in.Get("code_challenge"), in.Get("redirect_uri"), in.Get("client_id"), in.Get("scope"), in.Get("resource")}
	s.mu.Unlock()
	out := url.Values{"code": {code}, "state": {in.Get("state")}, "iss": {s.URL}}
	if s.Answer != nil {
		s.Answer(out)
	}
	w.Header().Set("Location", in.Get("redirect_uri")+"?"+out.Encode())
	w.WriteHeader(http.StatusFound)
}

func (s *Issuer) token(w http.ResponseWriter, q *http.Request) {
	_ = q.ParseForm()
	s.mu.Lock()
	s.forms = append(s.forms, maps.Clone(q.PostForm))
	answer := s.answer
	s.mu.Unlock()
	if answer != nil && answer(w, q) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	refuse := func(code, why string) {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": code, "error_description": why})
	}
	if q.PostForm.Get("resource") != s.Resource {
		refuse("invalid_target", "no resource")
		return
	}
	id, secret, basic := q.BasicAuth()
	if !basic {
		id, secret = q.PostForm.Get("client_id"), q.PostForm.Get("client_secret")
	}
	switch q.PostForm.Get("grant_type") {
	case "authorization_code":
		g, ok := s.codes[q.PostForm.Get("code")]
		delete(s.codes, q.PostForm.Get("code"))
		sum := sha256.Sum256([]byte(q.PostForm.Get("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge || g.redirect != q.PostForm.Get("redirect_uri") || g.client != id || s.Clients[id] != secret {
			refuse("invalid_grant", "the code is not valid")
			return
		}
		s.issue(w, rand.Text(), g.scope, true)
	case "refresh_token":
		token := q.PostForm.Get("refresh_token")
		family, ok := s.refresh[token]
		if was, again := s.spent[token]; again {
			s.revoked[was] = true
		}
		if !ok || s.revoked[family] {
			refuse("invalid_grant", "the refresh token is not valid")
			return
		}
		delete(s.refresh, token)
		s.spent[token] = family
		s.issue(w, family, "", true)
	case "client_credentials":
		if want, ok := s.Clients[id]; !ok || want != secret {
			refuse("invalid_client", "")
			return
		}
		s.issue(w, rand.Text(), q.PostForm.Get("scope"), false)
	default:
		refuse("unsupported_grant_type", "")
	}
}

// issue responds with newly issued tokens. s.mu must be held.
func (s *Issuer) issue(w http.ResponseWriter, family, scope string, refresh bool) {
	out := map[string]any{"access_token": "at-" + rand.Text(), "token_type": "Bearer", "expires_in": s.Life.Seconds()}
	s.access[out["access_token"].(string)] = access{family, scope, time.Now().Add(s.Life)}
	if refresh {
		token := "rt-" + rand.Text()
		out["refresh_token"] = token
		s.refresh[token] = family
	}
	if scope != "" {
		out["scope"] = scope
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *Issuer) revoke(w http.ResponseWriter, q *http.Request) {
	_ = q.ParseForm()
	s.mu.Lock()
	defer s.mu.Unlock()
	if family, ok := s.refresh[q.PostForm.Get("token")]; ok {
		s.revoked[family] = true
	}
	w.WriteHeader(http.StatusOK)
}

// LogIn logs in to the server, as a user would.
func LogIn(t testing.TB, logins *login.Store, s *Issuer, to login.Target) {
	t.Helper()
	f, err := logins.Begin(t.Context(), to, login.Challenge{}, "http://127.0.0.1:1/callback")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(Browse(t, f.URL))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Finish(t.Context(), u.Query()); err != nil {
		t.Fatal(err)
	}
}

// Browse sends the request that a browser would send to the URL of a login, and returns the URL to
// which the authorization server redirects.
func Browse(t testing.TB, address string) string {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	p, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Body.Close() }()
	if p.StatusCode != http.StatusFound {
		t.Fatalf("the authorization server answered %s", p.Status)
	}
	return p.Header.Get("Location")
}

// Serve runs an HTTP server with a handler until the test ends, and returns its URL.
func Serve(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
