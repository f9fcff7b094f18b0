package login_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/login/logintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noKeyring is a keyring that does not answer.
func noKeyring() login.Keyring {
	err := errors.New("no bus")
	return login.Keyring{Get: func(string) (string, error) { return "", err }, Set: func(string, string) error { return err }, Delete: func(string) error { return err }}
}

func store(t *testing.T) *login.Store {
	t.Helper()
	return login.NewStore(login.Options{Dir: filepath.Join(t.TempDir(), "logins"), Keyring: noKeyring()})
}

func target(s *logintest.Issuer) login.Target {
	return login.TargetOf(config.Server{ID: "docs", Transport: config.TransportHTTP, URL: config.NewSecret(s.Resource)})
}

const redirect = "http://127.0.0.1:1/callback"

// challenge returns the server's challenge to a request without a token.
func challenge(t *testing.T, s *logintest.Issuer) login.Challenge {
	t.Helper()
	p, err := http.Get(s.Resource)
	must(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer func() { _ = p.Body.Close() }()
	return login.ParseChallenge(p.Header.Values("WWW-Authenticate"))
}

// logIn logs in as a user would.
func logIn(t *testing.T, logins *login.Store, s *logintest.Issuer, to login.Target) (*login.Login, error) {
	t.Helper()
	f, err := logins.Begin(t.Context(), to, challenge(t, s), redirect)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(logintest.Browse(t, f.URL))
	must(t, err)
	return f.Finish(t.Context(), u.Query())
}

func mustLogIn(t *testing.T, logins *login.Store, s *logintest.Issuer) *login.Login {
	t.Helper()
	l, err := logIn(t, logins, s, target(s))
	must(t, err)
	return l
}

// request makes one request as a session does, and returns its status.
func request(ctx context.Context, src *login.TokenSource, address string) (int, error) {
	for again := false; ; again = true {
		header, err := src.Header(ctx)
		if err != nil {
			return 0, err
		}
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return 0, err
		}
		q.Header.Set("Authorization", header)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		p, err := client.Do(q)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, p.Body)
		_ = p.Body.Close()
		if p.StatusCode != http.StatusUnauthorized && p.StatusCode != http.StatusForbidden || again {
			return p.StatusCode, nil
		}
		retry, err := src.Refused(ctx, header, p.StatusCode, login.ParseChallenge(p.Header.Values("WWW-Authenticate")))
		if err != nil || !retry {
			return p.StatusCode, err
		}
	}
}

func wantStatus(t *testing.T, src *login.TokenSource, s *logintest.Issuer, want int) {
	t.Helper()
	if got, err := request(t.Context(), src, s.Resource); got != want || err != nil {
		t.Fatalf("status %d, %v; want %d", got, err, want)
	}
}

// A login is accessible only to its owner, and used by every store of the folder. A token that the
// server refuses is renewed, and the refresh token is replaced.
func TestLoginAndRenewal(t *testing.T) {
	s := logintest.New(t)
	s.Scopes = []string{"read"}
	dir := filepath.Join(t.TempDir(), "logins")
	logins := login.NewStore(login.Options{Dir: dir, Keyring: noKeyring()})
	l := mustLogIn(t, logins, s)
	if l.Kind != login.KindFile || l.NoKeyring == nil || !l.Renewable || len(l.Scopes) != 1 || l.Scopes[0] != "read" || l.Issuer != s.URL {
		t.Errorf("%+v", l)
	}
	info, err := os.Stat(logins.Path(target(s)))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	src := login.NewStore(login.Options{Dir: dir, Keyring: noKeyring()}).TokenSource(target(s))
	wantStatus(t, src, s, http.StatusOK)
	for range 3 {
		s.Expire()
		wantStatus(t, src, s, http.StatusOK)
	}
	if n := s.Hits("as /token"); n != 4 || s.Revoked() {
		t.Errorf("%d token requests, revoked: %t", n, s.Revoked())
	}
	if secrets, text := src.Secrets(), fmt.Sprintf("%v %+v %#v", l, l, *l); len(secrets) == 0 || strings.Contains(text, secrets[0]) {
		t.Errorf("secrets %q in %s", secrets, text)
	}
	for _, form := range s.Forms() {
		if form.Get("resource") != s.Resource {
			t.Errorf("a token request without the resource: %v", form)
		}
	}
}

// A token is renewed before it expires, so that no request fails. In real time: the token expires
// at an HTTP server, which cannot be in a synctest bubble.
func TestRenewalBeforeExpiry(t *testing.T) {
	s := logintest.New(t)
	s.Life = time.Second
	logins := store(t)
	mustLogIn(t, logins, s)
	src := logins.TokenSource(target(s))
	headers := 0
	for end := time.Now().Add(time.Minute); s.Hits("as /token") < 3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d token requests within a minute", s.Hits("as /token"))
		}
		headers++
		header, err := src.Header(t.Context())
		must(t, err)
		if again, _ := src.Refused(t.Context(), header, http.StatusForbidden, login.Challenge{}); again {
			t.Error("a request is repeated")
		}
	}
	if headers < 6 || s.Revoked() {
		t.Errorf("a token is not used twice: %d requests", headers)
	}
}

// Concurrent users that find the token refused renew it once.
func TestOneRenewalForAll(t *testing.T) {
	s := logintest.New(t)
	dir := filepath.Join(t.TempDir(), "logins")
	mustLogIn(t, login.NewStore(login.Options{Dir: dir, Keyring: noKeyring()}), s)
	before := s.Hits("as /token")
	const rounds = 5
	for range rounds {
		s.Expire()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				src := login.NewStore(login.Options{Dir: dir, Keyring: noKeyring()}).TokenSource(target(s))
				if status, err := request(t.Context(), src, s.Resource); status != http.StatusOK || err != nil {
					t.Errorf("status %d, %v", status, err)
				}
			})
		}
		all.Wait()
	}
	if n := s.Hits("as /token") - before; n != rounds || s.Revoked() {
		t.Errorf("%d renewals of %d expired tokens, revoked: %t", n, rounds, s.Revoked())
	}
}

// A refusal ends the login with the reason and what to do, and the authorization server is asked
// only once.
func TestRefusedRenewal(t *testing.T) {
	s := logintest.New(t)
	logins := store(t)
	mustLogIn(t, logins, s)
	s.Revoke()
	for range 3 {
		status, err := request(t.Context(), logins.TokenSource(target(s)), s.Resource)
		required, ok := errors.AsType[*login.RequiredError](err)
		if !ok || !strings.Contains(required.Error(), "invalid_grant (the refresh token is not valid)") || !strings.Contains(required.Error(), "run mcptrack login docs") {
			t.Errorf("status %d, %v", status, err)
		}
	}
	if n := s.Hits("as /token"); n != 2 {
		t.Errorf("%d token requests", n)
	}
	mustLogIn(t, logins, s)
	if l, err := logins.Get(target(s)); err != nil || l.Refused != "" {
		t.Errorf("after a new login: %v, %v", l, err)
	}
}

// An authorization server that fails or is unreachable ends no login.
func TestNetworkErrorsAreNoLogout(t *testing.T) {
	s := logintest.New(t)
	logins := store(t)
	mustLogIn(t, logins, s)
	src := logins.TokenSource(target(s))
	wantStatus(t, src, s, http.StatusOK)
	for name, fault := range map[string]func(http.ResponseWriter){
		"503": func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"429": func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) },
		"cut": func(w http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"server_error": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"temporarily_unavailable"}`)
		},
		"html": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>maintenance") },
	} {
		s.Expire()
		s.AnswerToken(func(w http.ResponseWriter, _ *http.Request) bool { fault(w); return true })
		_, err := request(t.Context(), src, s.Resource)
		if _, ended := errors.AsType[*login.RequiredError](err); ended || err == nil || !strings.Contains(err.Error(), "cannot be renewed now") {
			t.Errorf("%s: %v", name, err)
		}
		s.AnswerToken(nil)
		wantStatus(t, src, s, http.StatusOK)
	}
}

// A renewal whose caller gives up still stores the token.
func TestRenewalOutlivesItsCaller(t *testing.T) {
	s := logintest.New(t)
	logins := store(t)
	mustLogIn(t, logins, s)
	src := logins.TokenSource(target(s))
	wantStatus(t, src, s, http.StatusOK)
	s.Expire()
	ctx, cancel := context.WithCancel(t.Context())
	s.AnswerToken(func(http.ResponseWriter, *http.Request) bool {
		cancel()
		time.Sleep(100 * time.Millisecond) // the client could disconnect in this time
		return false
	})
	_, _ = request(ctx, src, s.Resource)
	s.AnswerToken(nil)
	wantStatus(t, src, s, http.StatusOK)
	if s.Revoked() || s.Hits("as /token") != 2 {
		t.Errorf("%d token requests, revoked: %t", s.Hits("as /token"), s.Revoked())
	}
}

// A process that dies between the response and storing it has used up the refresh token: that is
// reported.
func TestInterruptedRenewalIsReported(t *testing.T) {
	s := logintest.New(t)
	dir := filepath.Join(t.TempDir(), "logins")
	logins := login.NewStore(login.Options{Dir: dir, Keyring: noKeyring()})
	mustLogIn(t, logins, s)
	path := logins.Path(target(s))
	s.Expire()
	var marked []byte
	s.AnswerToken(func(http.ResponseWriter, *http.Request) bool { // the file while the request is in flight
		marked, _ = os.ReadFile(path)
		return false
	})
	wantStatus(t, logins.TokenSource(target(s)), s, http.StatusOK)
	s.AnswerToken(nil)
	if err := os.WriteFile(path, marked, 0o600); err != nil { // as if the process had died then
		t.Fatal(err)
	}
	_, err := request(t.Context(), logins.TokenSource(target(s)), s.Resource)
	if _, ok := errors.AsType[*login.RequiredError](err); !ok || !strings.Contains(err.Error(), "was interrupted, which may have invalidated the refresh token") {
		t.Errorf("%v", err)
	}
}

// A logout revokes and deletes the login, and its users notice.
func TestLogout(t *testing.T) {
	s := logintest.New(t)
	logins := store(t)
	mustLogIn(t, logins, s)
	src := logins.TokenSource(target(s))
	wantStatus(t, src, s, http.StatusOK)
	gone, err := logins.Delete(t.Context(), target(s))
	if err != nil || len(gone) != 1 || s.Hits("as /revoke") != 1 {
		t.Errorf("%v, %v", gone, err)
	}
	wantStatus(t, src, s, http.StatusUnauthorized)
	if _, err := logins.Get(target(s)); !errors.Is(err, login.ErrNone) {
		t.Error(err)
	}
	if again, err := logins.Delete(t.Context(), target(s)); err != nil || len(again) != 0 {
		t.Errorf("the second time: %v, %v", again, err)
	}
}

// The keyring holds the secrets; the file holds none.
func TestKeyringHoldsTheSecrets(t *testing.T) {
	s := logintest.New(t)
	ring := map[string]string{}
	dir := filepath.Join(t.TempDir(), "logins")
	works := true
	logins := login.NewStore(login.Options{Dir: dir, Keyring: login.Keyring{
		Get: func(a string) (string, error) { return ring[a], nil },
		Set: func(a, v string) error {
			if !works {
				return errors.New("locked")
			}
			ring[a] = v
			return nil
		},
		Delete: func(a string) error { delete(ring, a); return nil },
	}})
	if l := mustLogIn(t, logins, s); l.Kind != login.KindKeyring || l.NoKeyring != nil {
		t.Errorf("%+v", l)
	}
	src := logins.TokenSource(target(s))
	wantStatus(t, src, s, http.StatusOK)
	s.Expire()
	wantStatus(t, src, s, http.StatusOK)
	text, err := os.ReadFile(logins.Path(target(s)))
	if err != nil || strings.Contains(string(text), "at-") || strings.Contains(string(text), "rt-") || len(ring) != 1 {
		t.Errorf("%v, %d in the keyring, the file has:\n%s", err, len(ring), text)
	}
	works = false // an issued token is not lost
	s.Expire()
	wantStatus(t, src, s, http.StatusOK)
	s.Expire()
	wantStatus(t, src, s, http.StatusOK)
	if l, err := logins.Get(target(s)); err != nil || l.Kind != login.KindFile || s.Revoked() {
		t.Errorf("%+v, %v", l, err)
	}
}

// A secret that cannot be deleted from the keyring stays, with an error; the other logins are
// deleted.
func TestLogoutWithoutTheKeyring(t *testing.T) {
	s := logintest.New(t)
	dir := filepath.Join(t.TempDir(), "logins")
	ring := map[string]string{}
	broken := errors.New("no bus")
	with := func(err error) *login.Store {
		return login.NewStore(login.Options{Dir: dir, Keyring: login.Keyring{
			Get:    func(a string) (string, error) { return ring[a], err },
			Set:    func(a, v string) error { ring[a] = v; return err },
			Delete: func(a string) error { return err },
		}})
	}
	mustLogIn(t, with(nil), s)
	ssh := with(broken)
	f, err := ssh.Begin(t.Context(), target(s), challenge(t, s), "http://127.0.0.1:2/callback") // another client
	must(t, err)
	u, err := url.Parse(logintest.Browse(t, f.URL))
	must(t, err)
	if _, err := f.Finish(t.Context(), u.Query()); err != nil {
		t.Fatal(err)
	}
	gone, err := ssh.Delete(t.Context(), target(s))
	if len(gone) != 1 || !errors.Is(err, broken) || !strings.Contains(err.Error(), "remains in the keyring") {
		t.Errorf("%d gone, %v", len(gone), err)
	}
	if text, err := os.ReadFile(ssh.Path(target(s))); err != nil || strings.Contains(string(text), "rt-") {
		t.Errorf("%v, the file has %s", err, text)
	}
	if gone, err := with(nil).Delete(t.Context(), target(s)); len(gone) != 1 || err != nil {
		t.Errorf("later: %d gone, %v", len(gone), err)
	}
}

// A login fails if its keyring was required and does not answer.
func TestRequiredKeyring(t *testing.T) {
	s := logintest.New(t)
	logins := login.NewStore(login.Options{Dir: t.TempDir(), Kind: login.KindKeyring, Keyring: noKeyring()})
	if _, err := logIn(t, logins, s, target(s)); err == nil || !strings.Contains(err.Error(), "the keyring is not available: no bus") {
		t.Error(err)
	}
}

// Without a user, the token is obtained when the server requires one, and again when it has
// expired.
func TestClientCredentials(t *testing.T) {
	s := logintest.New(t)
	s.Clients["ci"] = "s3cret"
	for _, kind := range []login.Kind{login.KindFile, login.KindMemory} {
		logins := login.NewStore(login.Options{Dir: filepath.Join(t.TempDir(), "logins"), Kind: kind})
		to := target(s)
		to.OAuth = config.OAuth{ClientID: "ci", ClientSecret: config.NewSecret("s3cret"), Grant: config.GrantClient}
		src := logins.TokenSource(to)
		wantStatus(t, src, s, http.StatusOK)
		wantStatus(t, src, s, http.StatusOK)
		s.Expire()
		wantStatus(t, src, s, http.StatusOK)
		to.OAuth.ClientSecret = config.NewSecret("wrong")
		s.Expire()
		_, err := request(t.Context(), login.NewStore(login.Options{Dir: t.TempDir(), Kind: kind}).TokenSource(to), s.Resource)
		if _, ok := errors.AsType[*login.RequiredError](err); !ok || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
