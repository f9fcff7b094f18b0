package login_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/login/logintest"
)

// wellKnown is where an authorization server without a path publishes its metadata.
const wellKnown = "/.well-known/oauth-authorization-server"

// signingKey returns a key and its file.
func signingKey(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	path := filepath.Join(t.TempDir(), "key.pem")
	must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return key, path
}

// audiences returns the audiences of the assertions in token requests.
func audiences(t *testing.T, key *ecdsa.PrivateKey, forms []url.Values) []string {
	t.Helper()
	var all []string
	for _, form := range forms {
		var claims jwt.RegisteredClaims
		if _, err := jwt.ParseWithClaims(form.Get("client_assertion"), &claims, func(*jwt.Token) (any, error) { return &key.PublicKey, nil }); err != nil {
			t.Fatal(err)
		}
		if claims.Issuer != "ci" || claims.Subject != "ci" || claims.ID == "" || len(claims.Audience) != 1 {
			t.Errorf("%+v", claims)
		}
		all = append(all, claims.Audience...)
	}
	return all
}

// elsewhere serves metadata at the given path and forwards to the endpoints of s. It returns its
// origin.
func elsewhere(t *testing.T, s *logintest.Issuer, path, issuer string) string {
	t.Helper()
	as, err := url.Parse(s.URL)
	must(t, err)
	var origin string
	web := http.NewServeMux()
	web.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": strings.ReplaceAll(issuer, "SELF", origin), "authorization_endpoint": origin + "/authorize", "token_endpoint": origin + "/token",
			"registration_endpoint": origin + "/register", "code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"private_key_jwt", "client_secret_basic"}})
	})
	web.Handle("/", httputil.NewSingleHostReverseProxy(as))
	origin = logintest.Serve(t, web)
	return origin
}

// An assertion is valid only for the authorization server that gets it, whatever its metadata
// claims.
func TestAudienceOfAssertions(t *testing.T) {
	key, file := signingKey(t)
	for name, c := range map[string]struct {
		path, issuer string // of metadata that the config names, "" : the server names its own
		want         string
	}{
		"named by the server":          {"", "", "AS"},
		"at the issuer's own place":    {wellKnown, "SELF", "SELF"},
		"with a slash":                 {wellKnown, "SELF/", "SELF/"},
		"OpenID Connect":               {"/.well-known/openid-configuration", "SELF", "SELF"},
		"with a path":                  {wellKnown + "/tenant", "SELF/tenant", "SELF/tenant"},
		"another issuer":               {wellKnown, "https://honest.example", "SELF/token"},
		"another issuer on this host":  {wellKnown, "AS", "SELF/token"},
		"another tenant of the origin": {wellKnown + "/tenant", "SELF/honest", "SELF/token"},
		"no place of metadata":         {"/my.json", "SELF", "SELF/token"},
		"no issuer":                    {wellKnown, "", "SELF/token"},
		"an issuer that is no URL":     {wellKnown, "honest", "SELF/token"},
	} {
		t.Run(name, func(t *testing.T) {
			s := logintest.New(t)
			s.Clients["ci"] = ""
			to, self := target(s), ""
			to.OAuth = config.OAuth{ClientID: "ci", PrivateKeyFile: file, Grant: config.GrantClient}
			if c.path != "" {
				self = elsewhere(t, s, c.path, strings.ReplaceAll(c.issuer, "AS", s.URL))
				to.OAuth.AuthServerMetadataURL = self + c.path
			}
			logins := store(t)
			wantStatus(t, logins.TokenSource(to), s, http.StatusOK)
			s.Expire()
			to.OAuth.AuthServerMetadataURL = "" // the stored login does not become valid elsewhere
			wantStatus(t, logins.TokenSource(to), s, http.StatusOK)
			want := strings.ReplaceAll(strings.ReplaceAll(c.want, "SELF", self), "AS", s.URL)
			if got := audiences(t, key, s.Forms()); !slices.Equal(got, []string{want, want}) {
				t.Errorf("audiences %q, want %q", got, want)
			}
		})
	}
}

// A client's secret stays with the authorization server that it first went to, unless the config
// names another one.
func TestSecretsStayWithTheirServer(t *testing.T) {
	for _, grant := range []config.Grant{config.GrantCode, config.GrantClient} {
		t.Run(string(grant), func(t *testing.T) {
			s, other := logintest.New(t), logintest.New(t)
			s.Clients["ci"], other.Clients["ci"] = "s3cret", "s3cret"
			logins, to := store(t), target(s)
			to.OAuth = config.OAuth{ClientID: "ci", ClientSecret: config.NewSecret("s3cret"), Grant: grant}
			logInTo := func(to login.Target) error {
				if grant == config.GrantCode {
					_, err := logIn(t, logins, s, to)
					return err
				}
				_, err := logins.Obtain(t.Context(), to, challenge(t, s))
				return err
			}
			for range 2 {
				must(t, logInTo(to))
			}
			s.Expire()
			wantStatus(t, logins.TokenSource(to), s, http.StatusOK)
			s.PRM = func(m map[string]any) { m["authorization_servers"] = []string{other.URL} }
			if err, ok := errors.AsType[*login.UnnamedError](logInTo(to)); !ok || err.Issuer != other.URL || err.Metadata != other.URL+wellKnown {
				t.Errorf("another authorization server: %+v", err)
			}
			if n := other.Hits("as /token") + other.Hits("as /authorize"); n != 0 {
				t.Errorf("%d requests at the other authorization server", n)
			}
		})
	}
}

// A client in the config stays with the authorization server that it was used at, even without a
// secret; a client that we register may be used elsewhere.
func TestServerThatNamesAnotherAuthorizationServer(t *testing.T) {
	for _, id := range []string{"me", ""} {
		s, other := logintest.New(t), logintest.New(t)
		logins, to := store(t), target(s)
		to.OAuth.ClientID = id
		if _, err := logIn(t, logins, s, to); err != nil {
			t.Fatal(err)
		}
		s.PRM = func(m map[string]any) { m["authorization_servers"] = []string{other.URL} }
		_, err := logins.Begin(t.Context(), to, challenge(t, s), redirect)
		if _, ok := errors.AsType[*login.UnnamedError](err); ok != (id != "") || !ok && err != nil {
			t.Errorf("client %q: %v", id, err)
		}
		if id == "" {
			continue
		}
		if _, err := logins.Delete(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		if _, err := logins.Begin(t.Context(), to, challenge(t, s), redirect); err != nil {
			t.Errorf("after a logout: %v", err)
		}
	}
}

// A client that was registered at one authorization server is not used at another one that claims
// to be the same.
func TestRegisteredClientsStay(t *testing.T) {
	s := logintest.New(t)
	logins, to := store(t), target(s)
	l := mustLogIn(t, logins, s)
	to.OAuth.AuthServerMetadataURL = elsewhere(t, s, wellKnown, s.URL) + wellKnown
	f, err := logins.Begin(t.Context(), to, challenge(t, s), redirect)
	must(t, err)
	if u, err := url.Parse(f.URL); err != nil || u.Query().Get("client_id") == l.Client.ID || u.Query().Get("client_id") == "" {
		t.Errorf("%s, %v", f.URL, err)
	}
}
