package login_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/login/logintest"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Whatever a server or its authorization server responds, a login with it fails with a reason, and
// no code or token leaks.
func TestHostileServers(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		t.Errorf("a request went elsewhere: %s %s", q.Method, q.URL)
	}))
	defer elsewhere.Close()
	huge := strings.Repeat("a", 64<<20)
	for name, c := range map[string]struct {
		plant func(*logintest.Issuer)
		want  string
	}{
		"metadata on another origin": {func(s *logintest.Issuer) {
			s.Challenge = func() string { return `Bearer resource_metadata="` + elsewhere.URL + `/meta"` }
		}, "has a different origin than the server"},
		"metadata about another server": {func(s *logintest.Issuer) {
			s.PRM = func(m map[string]any) { m["resource"] = "https://bank.example/mcp" }
		}, `describes a different resource: "https://bank.example/mcp"`},
		"metadata about a longer path": {func(s *logintest.Issuer) {
			s.PRM = func(m map[string]any) { m["resource"] = s.Resource + "/admin" }
		}, "describes a different resource"},
		"metadata about a sibling": {func(s *logintest.Issuer) {
			s.PRM = func(m map[string]any) { m["resource"] = strings.TrimSuffix(s.Resource, "p") }
		}, "describes a different resource"},
		"no authorization server": {func(s *logintest.Issuer) {
			s.PRM = func(m map[string]any) { m["authorization_servers"] = []string{} }
		}, "does not specify an authorization server"},
		"authorization server that is no URL": {func(s *logintest.Issuer) {
			s.PRM = func(m map[string]any) { m["authorization_servers"] = []string{"javascript:alert(1)"} }
		}, "that is not a URL"},
		"issuer of another": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) { m["issuer"] = "https://honest.example" }
		}, "does not match"},
		"no PKCE": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) { m["code_challenge_methods_supported"] = nil }
		}, "PKCE"},
		"plain PKCE": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) { m["code_challenge_methods_supported"] = []string{"plain"} }
		}, "S256"},
		"http token endpoint": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) { m["token_endpoint"] = "http://as.example/token" }
		}, "does not use https"},
		"http revocation endpoint": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) { m["revocation_endpoint"] = "http://as.example/revoke" }
		}, "does not use https"},
		"login page with another host as its user": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) {
				m["authorization_endpoint"] = "https://accounts.example@attacker.example/authorize"
			}
		}, "contains a user name or a fragment"},
		"login page with a fragment": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) { m["authorization_endpoint"] = s.URL + "/authorize#here" }
		}, "contains a user name or a fragment"},
		"login page for another client": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) {
				m["authorization_endpoint"] = "https://honest.example/authorize?tenant=1&client_id=evil"
			}
		}, `already has the parameter "client_id"`},
		"metadata with a user": {func(s *logintest.Issuer) {
			s.PRM = func(m map[string]any) { m["resource"] = strings.Replace(s.Resource, "://", "://you@", 1) }
		}, "describes a different resource"},
		"script as login page": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) { m["authorization_endpoint"] = "javascript:alert(1)" }
		}, "does not use https"},
		"token endpoint that redirects": {func(s *logintest.Issuer) {
			s.AnswerToken(func(w http.ResponseWriter, q *http.Request) bool {
				http.Redirect(w, q, elsewhere.URL+"/token", http.StatusTemporaryRedirect)
				return true
			})
		}, "the response is a redirect, which is not followed"},
		"token of 64 MB": {func(s *logintest.Issuer) {
			s.AnswerToken(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"token_type":"Bearer","access_token":"`+huge+`"}`)
				return true
			})
		}, "larger than 524288 bytes"},
		"token that is too long for a header": {func(s *logintest.Issuer) {
			s.AnswerToken(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"token_type":"Bearer","access_token":"`+huge[:100<<10]+`"}`)
				return true
			})
		}, "too long or not printable"},
		"token with a line break": {func(s *logintest.Issuer) {
			s.AnswerToken(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"token_type":"Bearer","access_token":"x\r\nX-Evil: 1"}`)
				return true
			})
		}, "too long or not printable"},
		"token of another type": {func(s *logintest.Issuer) {
			s.AnswerToken(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"token_type":"DPoP","access_token":"x"}`)
				return true
			})
		}, "of type DPoP"},
		"answer of another issuer": {func(s *logintest.Issuer) {
			s.Answer = func(q url.Values) { q.Set("iss", "https://attacker.example") }
		}, "from another authorization server, https://attacker.example"},
		"answer without its issuer": {func(s *logintest.Issuer) {
			s.Answer = func(q url.Values) { q.Del("iss") }
		}, `does not contain "iss"`},
		"answer with another state": {func(s *logintest.Issuer) {
			s.Answer = func(q url.Values) { q.Set("state", "stolen") }
		}, `its "state" is not the one that mcptrack sent`},
		"refusal": {func(s *logintest.Issuer) {
			s.Answer = func(q url.Values) {
				q.Del("code")
				q.Set("error", "access_denied")
				q.Set("error_description", "no\x1b[31m way")
			}
		}, "refused the login: access_denied (no"},
		"registration refused": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) { m["registration_endpoint"] = s.URL + "/nowhere" }
		}, "register a client: the authorization server responded with HTTP status 404"},
		"no registration": {func(s *logintest.Issuer) { s.NoDCR = true }, "does not support client registration"},
	} {
		t.Run(name, func(t *testing.T) {
			s := logintest.New(t)
			c.plant(s)
			logins := store(t)
			_, err := logIn(t, logins, s, target(s))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\x1b\r") || len(err.Error()) > 2000 {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, err := logins.Get(target(s)); err == nil {
				t.Error("a login was stored")
			}
		})
	}
}

// No URL of an authorization server hides or forges anything on a terminal, in a browser or in a
// log.
func TestURLsThatAreNotPrintable(t *testing.T) {
	for _, hidden := range []string{"\u202e", "\u2066", "\u200b", "\u00ad", "\ufeff", "\U000e0041", "\U000e0100", "\u009b31m", "\u0085", "\u2028", "\ue000", " ", "\u00fc", "\u0430"} {
		for _, member := range []string{"authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint", "issuer"} {
			for _, form := range []string{"%s/x" + hidden + "y", "%s/?x=" + hidden, "https://x" + hidden + ".example/y"} {
				s := logintest.New(t)
				address := strings.Replace(form, "%s", s.URL, 1)
				s.Meta = func(m map[string]any) { m[member] = address }
				to := target(s)
				if member == "issuer" {
					s.PRM = func(m map[string]any) { m["authorization_servers"] = []string{address} }
				}
				for _, to.OAuth.AuthServerMetadataURL = range []string{"", s.URL + wellKnown} {
					f, err := store(t).Begin(t.Context(), to, challenge(t, s), redirect)
					if err == nil || printable.Lines(err.Error()) != err.Error() || !strings.Contains(err.Error(), "must be encoded") && !strings.Contains(err.Error(), "not a URL") && !strings.Contains(err.Error(), "invalid character") {
						t.Errorf("%s %q: %+v, %v", member, address, f, err)
					}
				}
			}
		}
	}
}

// A public server can name neither this machine nor a private network, in any spelling. See also
// TestPublicServerReachesOnlyPublicAddresses.
func TestPrivateAddressesOfAPublicServer(t *testing.T) {
	for _, address := range []string{"https://127.0.0.1/", "http://localhost:1/", "https://as.localhost./", "https://169.254.169.254/latest",
		"https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[fe80::1%25lo]/", "http://as.example/"} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		must(t, err)
		p, err := login.NewClient(t.Context(), "https://93.184.215.14/mcp").Do(q)
		if err == nil {
			_ = p.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "public server must not refer to it") && !strings.Contains(err.Error(), "is not https") {
			t.Errorf("%s: %v", address, err)
		}
	}
	// A name that leads to this machine is refused when it is dialled.
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+hostname(t)+":1/", nil)
	must(t, err)
	if p, err := login.NewClient(t.Context(), "https://93.184.215.14/mcp").Do(q); err == nil || !strings.Contains(err.Error(), "private address") {
		if err == nil {
			_ = p.Body.Close()
		}
		t.Errorf("%v", err)
	}
}

// Redirects of metadata are followed within an origin, and not forever.
func TestRedirectsOfMetadata(t *testing.T) {
	hits := 0
	web := http.NewServeMux()
	s := httptest.NewServer(web)
	defer s.Close()
	web.HandleFunc("/loop", func(w http.ResponseWriter, q *http.Request) { hits++; http.Redirect(w, q, "/loop", http.StatusFound) })
	web.HandleFunc("/away", func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	})
	for path, want := range map[string]string{"/loop": "redirected more than 3 times", "/away": "redirects to another origin"} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
		must(t, err)
		p, err := login.NewClient(t.Context(), s.URL).Do(q)
		if err == nil {
			_ = p.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if hits > 5 {
		t.Errorf("%d requests", hits)
	}
}

// An endless discovery ends with its caller, and a discovery with many authorization servers asks
// only a few of them.
func TestEndlessDiscovery(t *testing.T) {
	s := logintest.New(t)
	drip := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for q.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(5 * time.Millisecond) // slowly, over a real connection
		}
	}))
	defer drip.Close()
	s.PRM = func(m map[string]any) { m["authorization_servers"] = []string{drip.URL} }
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := store(t).Begin(ctx, target(s), challenge(t, s), redirect); err == nil {
		t.Error("it found something")
	}
	many := logintest.New(t)
	asked := make(chan string, 1000) // requests; never closed
	nothing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked <- q.URL.Path
		http.NotFound(w, q)
	}))
	defer nothing.Close()
	many.PRM = func(m map[string]any) {
		var all []string
		for range 500 {
			all = append(all, nothing.URL+"/"+strings.Repeat("x", 10))
		}
		m["authorization_servers"] = all
	}
	if _, err := store(t).Begin(t.Context(), target(many), challenge(t, many), redirect); err == nil || !strings.Contains(err.Error(), "publishes no metadata") {
		t.Error(err)
	}
	if len(asked) > 9 {
		t.Errorf("%d requests for metadata", len(asked))
	}
}

// The port that the browser is redirected to accepts one answer, and only to our login.
func TestCallback(t *testing.T) {
	s := logintest.New(t)
	logins := store(t)
	callback, err := login.Listen(t.Context(), target(s).Redirect(0))
	must(t, err)
	f, err := logins.Begin(t.Context(), target(s), challenge(t, s), callback.Redirect)
	must(t, err)
	answer := logintest.Browse(t, f.URL)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(method, address, host string) (int, string) {
		q, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		must(t, err)
		if host != "" {
			q.Host = host
		}
		p, err := client.Do(q)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer func() { _ = p.Body.Close() }()
		page, _ := io.ReadAll(p.Body)
		if !strings.Contains(p.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Error("no Content-Security-Policy")
		}
		return p.StatusCode, string(page)
	}
	inFlight, proceed := make(chan struct{}), make(chan struct{}) // closed once each, below
	var strange []string
	ended := make(chan error, 1) // sent to once
	go func() {
		ended <- callback.Serve(t.Context(), f, func(ctx context.Context, q url.Values) error {
			close(inFlight)
			<-proceed
			_, err := f.Finish(ctx, q)
			return err
		}, func(reason string) { strange = append(strange, reason) })
	}()
	for _, c := range []struct {
		method, address, host, want string
		status                      int
	}{
		{"GET", strings.Replace(answer, "state=", "state=x", 1), "", "belongs to another login", 400},
		{"GET", callback.Redirect, "", "belongs to another login", 400},
		{"GET", answer, "evil.example", "not the redirect address", 421},
		{"POST", answer, "", "only accepts GET", 405},
		{"GET", strings.Replace(answer, "/callback", "/favicon.ico", 1), "", "Nothing is here", 404},
	} {
		if status, page := get(c.method, c.address, c.host); status != c.status || !strings.Contains(page, c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.address, status, page)
		}
	}
	first := make(chan string, 1) // sent to once
	go func() { _, page := get("GET", answer, ""); first <- page }()
	<-inFlight
	if status, page := get("GET", answer, ""); status != http.StatusConflict || !strings.Contains(page, "already been completed") {
		t.Errorf("the second answer: %d %s", status, page)
	}
	close(proceed)
	if page := <-first; !strings.Contains(page, "Logged in to docs") {
		t.Error(page)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(strange) != 5 {
		t.Errorf("reported: %q", strange)
	}
}

// A login requests the scopes of the challenge, else of the metadata, else none; the next login
// adds what a request lacked.
func TestScopes(t *testing.T) {
	s := logintest.New(t)
	scope := func(logins *login.Store, to login.Target, given ...string) string {
		if given != nil {
			to.OAuth.Scopes = given
		}
		f, err := logins.Begin(t.Context(), to, challenge(t, s), redirect)
		must(t, err)
		u, err := url.Parse(f.URL)
		must(t, err)
		return u.Query().Get("scope")
	}
	logins, to := store(t), target(s)
	if got := scope(logins, to); got != "" {
		t.Errorf("%q", got)
	}
	s.PRM = func(m map[string]any) { m["scopes_supported"] = []string{"a", "b"} }
	if got := scope(logins, to); got != "a b" {
		t.Errorf("%q", got)
	}
	s.Scopes = []string{"a"}
	if got := scope(logins, to); got != "a" {
		t.Errorf("%q", got)
	}
	s.Meta = func(m map[string]any) { m["scopes_supported"] = []string{"offline_access"} }
	if got := scope(logins, to); got != "a offline_access" {
		t.Errorf("%q", got)
	}
	s.Meta = nil
	to.OAuth.Scopes = []string{"c"}
	if got := scope(logins, to); got != "c" {
		t.Errorf("%q", got)
	}
	if got := scope(logins, to, "d"); got != "d" {
		t.Errorf("%q", got)
	}
	to.OAuth = config.OAuth{}
	mustLogIn(t, logins, s)
	src := logins.TokenSource(to)
	header, err := src.Header(t.Context())
	must(t, err)
	again, err := src.Refused(t.Context(), header, http.StatusForbidden, login.ParseChallenge([]string{`Bearer error="insufficient_scope", scope="write admin"`}))
	if again || err == nil || !strings.Contains(err.Error(), "run mcptrack login docs") {
		t.Errorf("%t, %v", again, err)
	}
	if got := scope(logins, to); got != "a write admin" {
		t.Errorf("after a request that lacked scopes: %q", got)
	}
}

// A server that refuses every request for yet another scope makes neither logins nor their file
// grow without bound.
func TestEndlessScopes(t *testing.T) {
	s := logintest.New(t)
	logins, to := store(t), target(s)
	mustLogIn(t, logins, s)
	src := logins.TokenSource(to)
	for round := range 2 {
		header, err := src.Header(t.Context())
		must(t, err)
		for i := range 60 {
			scope := fmt.Sprintf("%d-%d-%s", round, i, strings.Repeat("x", 200))
			if i == 0 {
				scope = strings.Repeat("x", 60<<10)
			} else if i == 1 {
				scope = `no\\scope`
			}
			_, _ = src.Refused(t.Context(), header, http.StatusForbidden, login.ParseChallenge([]string{`Bearer error="insufficient_scope", scope="` + scope + `"`}))
		}
		f, err := logins.Begin(t.Context(), to, challenge(t, s), redirect)
		must(t, err)
		if !strings.Contains(f.URL, fmt.Sprintf("%d-2-xxx", round)) {
			t.Errorf("round %d: what was refused last is not asked for", round)
		}
		if len(f.URL) > 10<<10 || strings.Contains(f.URL, "no%5C") {
			t.Errorf("round %d: the URL has %d bytes", round, len(f.URL))
		}
		mustLogIn(t, logins, s)
	}
	if info, err := os.Stat(logins.Path(to)); err != nil || info.Size() > 64<<10 {
		t.Errorf("%v, %v", info, err)
	}
}

// Even with large metadata, the file of a server's logins stays readable: older logins of other
// clients are dropped.
func TestLargeLogins(t *testing.T) {
	s := logintest.New(t)
	s.Meta = func(m map[string]any) { m["token_endpoint"] = s.URL + "/token?" + strings.Repeat("x", 300<<10) }
	logins, to := store(t), target(s)
	for i := range 6 {
		f, err := logins.Begin(t.Context(), to, challenge(t, s), fmt.Sprintf("http://127.0.0.1:%d/callback", i+1))
		must(t, err)
		u, err := url.Parse(logintest.Browse(t, f.URL))
		must(t, err)
		if _, err := f.Finish(t.Context(), u.Query()); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, logins.TokenSource(to), s, http.StatusOK)
	}
}

// An authorization server that forgot our client reports it only in the browser, or at the code:
// the next login registers a new client.
func TestForgottenClient(t *testing.T) {
	s := logintest.New(t)
	logins, to := store(t), target(s)
	mustLogIn(t, logins, s)
	begin := func() *login.Flow {
		t.Helper()
		f, err := logins.Begin(t.Context(), to, challenge(t, s), redirect)
		must(t, err)
		return f
	}
	f := begin()
	if n := s.Hits("as /register"); n != 1 {
		t.Errorf("%d registrations", n)
	}
	if err := f.Abandon(t.Context()); err != nil {
		t.Error(err)
	}
	wantStatus(t, logins.TokenSource(to), s, http.StatusOK) // the earlier login still works
	if again := begin(); s.Hits("as /register") != 2 || again.Abandon(t.Context()) != nil {
		t.Errorf("%d registrations", s.Hits("as /register"))
	}
}

// hostname returns a name of this machine other than localhost.
func hostname(t *testing.T) string {
	name, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	addrs, err := net.DefaultResolver.LookupHost(t.Context(), name)
	if err != nil || len(addrs) == 0 {
		t.Skip("this machine has no name that resolves")
	}
	return name
}
