package login

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/guarded"
	"github.com/mcptrack/mcptrack/core/printable"
)

// A Flow is one login by a user with a browser. It starts with a URL to open and results in a
// stored Login.
type Flow struct {
	URL string // URL to open in the browser

	target   Target
	store    *Store
	redirect string
	scopes   []string
	at       *discovery
	with     OAuthClient
	reused   bool // the client was registered during an earlier login
	state    string
	verifier string
}

// Begin starts a login to a target that refused a request with the challenge: it discovers the
// authorization server and chooses the client. The browser will be redirected to redirect. The error is
// [ErrNoClient] if the user must first register a client, and an [*UnnamedError] if the config must
// first specify the authorization server.
func (s *Store) Begin(ctx context.Context, t Target, c Challenge, redirect string) (*Flow, error) {
	client := newClient(ctx, t.URL)
	at, err := discover(ctx, client, t, c)
	if err != nil {
		return nil, err
	}
	if at.server.AuthorizationEndpoint == "" {
		return nil, errors.New("the authorization server does not support logins of users (it has no authorization endpoint)")
	}
	earlier := s.earlier(t)
	f := &Flow{target: t, store: s, redirect: redirect, at: at, state: rand.Text(), verifier: oauth2.GenerateVerifier()}
	f.scopes = chooseScopes(t, c, at, earlier)
	if f.with, f.reused, err = f.chooseClient(ctx, client, at.server, earlier); err != nil {
		return nil, err
	}
	f.URL = f.authorizationURL()
	return f, nil
}

// offlineAccess is the scope that an OpenID Connect client requests to receive refresh tokens.
const offlineAccess = "offline_access"

func (f *Flow) authorizationURL() string {
	c := oauth2.Config{ClientID: f.with.ID, RedirectURL: f.redirect, Scopes: f.scopes,
		Endpoint: oauth2.Endpoint{AuthURL: f.at.server.AuthorizationEndpoint}}
	opts := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(f.verifier)}
	if f.at.resource != "" {
		opts = append(opts, oauth2.SetAuthURLParam("resource", f.at.resource))
	}
	if slices.Contains(f.scopes, offlineAccess) {
		opts = append(opts, oauth2.SetAuthURLParam("prompt", "consent")) // required by OpenID Connect together with offline_access
	}
	return c.AuthCodeURL(f.state, opts...)
}

// Abandon records that the login was not completed. If it used a client registered earlier, the
// authorization server may no longer recognise that client, which it would report only in the
// browser; the next login therefore registers a new client.
func (f *Flow) Abandon(ctx context.Context) error {
	if !f.reused {
		return nil
	}
	return f.store.change(ctx, f.target, func(l *Login) bool {
		was := l.Client.Registered && l.Client.ID == f.with.ID
		l.Client.Registered = l.Client.Registered && !was
		return was
	})
}

// Issuer returns the issuer identifier of the authorization server, in printable form.
func (f *Flow) Issuer() string { return printable.Line(f.at.server.Issuer, 200) }

// Ours reports whether the query of a redirect request belongs to this flow.
func (f *Flow) Ours(answer url.Values) bool {
	return subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(f.state)) == 1
}

// Finish obtains and stores the login. answer is the query of the request to which the browser was
// redirected.
func (f *Flow) Finish(ctx context.Context, answer url.Values) (*Login, error) {
	if !f.Ours(answer) {
		return nil, errors.New(`the redirected URL belongs to another login: its "state" is not the one that mcptrack sent`)
	}
	if err := checkIssuer(answer, f.at.server); err != nil {
		return nil, err
	}
	if code := answer.Get("error"); code != "" {
		return nil, &AnswerError{Doing: "the login", Code: code, Description: answer.Get("error_description")}
	}
	if answer.Get("code") == "" {
		return nil, errors.New("the redirected URL has no \"code\"")
	}
	l := newLogin(f.target, f.at, f.with, f.scopes)
	err := l.requestToken(ctx, newClient(ctx, f.target.URL), f.target, "the login", url.Values{
		"grant_type": {"authorization_code"}, "code": {answer.Get("code")},
		"redirect_uri": {f.redirect}, "code_verifier": {f.verifier},
	})
	if err != nil {
		return nil, err
	}
	return l, f.store.Put(ctx, f.target, l)
}

// checkIssuer checks that the redirect comes from the authorization server to which the browser was
// sent (RFC 9207). Otherwise an attacker's server could respond in its place to obtain an
// authorization code.
func checkIssuer(answer url.Values, m *serverMeta) error {
	switch iss := answer.Get("iss"); {
	case iss == "" && m.AuthorizationResponseIssParameterSupported:
		return errors.New(`the redirected URL does not contain "iss", which identifies the authorization server`)
	case iss != "" && iss != m.Issuer:
		return fmt.Errorf("the redirected URL comes from another authorization server, %s", printable.Line(iss, 200))
	}
	return nil
}

// earlier returns the login that a new one replaces, or nil if there is none or it cannot be read.
func (s *Store) earlier(t Target) *Login {
	l, err := s.Get(t)
	if err != nil {
		return nil
	}
	return l
}

// Offers reports whether a target supports logins even though it did not refuse a request.
func (s *Store) Offers(ctx context.Context, t Target) bool {
	m, err := resourceMetadata(ctx, newClient(ctx, t.URL), t, Challenge{})
	return err == nil && m != nil
}

// Obtain obtains and stores a login with the client credentials grant, which involves no user. The
// error is an [*UnnamedError] if the config must first specify the authorization server.
func (s *Store) Obtain(ctx context.Context, t Target, c Challenge) (*Login, error) {
	l, err := s.obtain(ctx, newClient(ctx, t.URL), t, c)
	if err != nil {
		return nil, err
	}
	return l, s.Put(ctx, t, l)
}

// obtain does the same as Obtain, but does not store the login.
func (s *Store) obtain(ctx context.Context, client *http.Client, t Target, c Challenge) (*Login, error) {
	at, err := discover(ctx, client, t, c)
	if err != nil {
		return nil, err
	}
	with, ok := configuredClient(t, at.server)
	if !ok {
		return nil, errors.New(`"grant" is "client_credentials", which needs a "clientId"`)
	}
	if err := at.entrust(t, with, s.earlier(t)); err != nil {
		return nil, err
	}
	l := newLogin(t, at, with, chooseScopes(t, c, at, nil))
	return l, l.requestToken(ctx, client, t, "a token", l.clientGrant())
}

func (l *Login) clientGrant() url.Values {
	grant := url.Values{"grant_type": {string(config.GrantClient)}}
	if len(l.Scopes) > 0 {
		grant.Set("scope", strings.Join(l.Scopes, " "))
	}
	return grant
}

// OAuthClient is the identity of mcptrack at an authorization server.
type OAuthClient struct {
	ID     string `json:"id"`
	Method string `json:"method"` // none, client_secret_basic, client_secret_post or private_key_jwt
	// Registered means that mcptrack registered the client itself, with the redirect URI in
	// Redirect.
	Registered bool      `json:"registered,omitempty"`
	Redirect   string    `json:"redirect,omitempty"`
	Expires    time.Time `json:"expires,omitzero"` // when the client secret expires; zero if never

	secret config.Secret // stored together with the tokens
}

// Supported methods of client authentication.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodJWT   = "private_key_jwt"
)

// ErrNoClient reports that a login requires a client that the user must register.
var ErrNoClient = errors.New("the authorization server does not support client registration")

// configuredClient returns the client in the config. ok is false if there is none.
func configuredClient(t Target, m *serverMeta) (OAuthClient, bool) {
	o := t.OAuth
	if o.ClientID == "" {
		return OAuthClient{}, false
	}
	c := OAuthClient{ID: o.ClientID, secret: o.ClientSecret, Method: methodNone}
	switch offered := m.TokenEndpointAuthMethodsSupported; {
	case o.PrivateKeyFile != "":
		c.Method = methodJWT
	case c.secret.IsZero():
	case slices.Contains(offered, methodPost) && !slices.Contains(offered, methodBasic):
		c.Method = methodPost
	default:
		c.Method = methodBasic // the default in RFC 8414
	}
	return c, true
}

// chooseClient selects the client for a login, in the order of the specification: the client in the
// config, a client identified by a metadata URL, a client registered during an earlier login
// (reused), or a newly registered client.
func (f *Flow) chooseClient(ctx context.Context, client *http.Client, m *serverMeta, earlier *Login) (c OAuthClient, reused bool, err error) {
	if c, ok := configuredClient(f.target, m); ok {
		return c, false, f.at.entrust(f.target, c, earlier)
	}
	if f.target.OAuth.ClientMetadataURL != "" && m.ClientIDMetadataDocumentSupported {
		return OAuthClient{ID: f.target.OAuth.ClientMetadataURL, Method: methodNone}, false, nil
	}
	// The token endpoint receives the client's secret, and metadata may claim any issuer, so both
	// must match.
	if earlier != nil && earlier.Issuer == m.Issuer && earlier.TokenEndpoint == m.TokenEndpoint && earlier.Client.Registered && earlier.Refused == "" &&
		earlier.Client.Redirect == f.redirect && (earlier.Client.Expires.IsZero() || time.Now().Before(earlier.Client.Expires)) {
		return earlier.Client, true, nil
	}
	if m.RegistrationEndpoint == "" {
		return OAuthClient{}, false, ErrNoClient
	}
	c, err = register(ctx, client, m, f.redirect, f.scopes)
	return c, false, err
}

// register registers a new client with the authorization server (RFC 7591).
func register(ctx context.Context, client *http.Client, m *serverMeta, redirect string, scopes []string) (OAuthClient, error) {
	method := methodNone
	if offered := m.TokenEndpointAuthMethodsSupported; len(offered) > 0 && !slices.Contains(offered, methodNone) {
		method = methodPost
		if slices.Contains(offered, methodBasic) {
			method = methodBasic
		}
	}
	var p struct {
		ID      string `json:"client_id"`
		Secret  string `json:"client_secret"`
		Expires int64  `json:"client_secret_expires_at"` // in Unix time; 0 if never
		Method  string `json:"token_endpoint_auth_method"`
	}
	if err := postRegistration(ctx, client, m.RegistrationEndpoint, map[string]any{
		"redirect_uris": []string{redirect}, "client_name": "mcptrack", "software_id": "mcptrack", "application_type": "native",
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": method, "scope": strings.Join(scopes, " "),
	}, &p); err != nil {
		return OAuthClient{}, err
	}
	if p.ID == "" {
		return OAuthClient{}, errors.New("register a client: the response contains no client ID")
	}
	c := OAuthClient{ID: p.ID, secret: config.NewSecret(p.Secret), Registered: true, Redirect: redirect, Method: p.Method}
	if p.Expires != 0 {
		c.Expires = time.Unix(p.Expires, 0)
	}
	if c.Method == "" {
		c.Method = method
	}
	if c.secret.IsZero() {
		c.Method = methodNone
	}
	if !slices.Contains([]string{methodNone, methodBasic, methodPost}, c.Method) {
		return OAuthClient{}, fmt.Errorf("the authorization server requires clients to authenticate with %s, which is not supported", printable.Line(c.Method, 60))
	}
	return c, nil
}

// postRegistration sends a client registration and reads the response. Its errors contain no text of a
// response that may contain a secret.
func postRegistration(ctx context.Context, client *http.Client, endpoint string, registration, into any) error {
	body, err := json.Marshal(registration)
	if err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return errors.New("register a client: the registration endpoint is not a URL")
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json")
	p, err := client.Do(q)
	if err != nil {
		return fmt.Errorf("register a client: %w", guarded.WithoutQuery(err))
	}
	defer func() { _ = p.Body.Close() }()
	text, err := io.ReadAll(p.Body)
	if err != nil {
		return fmt.Errorf("register a client: %w", err)
	}
	var refused struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	switch p.StatusCode {
	case http.StatusOK, http.StatusCreated:
	case http.StatusBadRequest:
		into = &refused
	default:
		return fmt.Errorf("register a client: the authorization server responded with HTTP status %s", printable.Line(p.Status, 60))
	}
	if json.Unmarshal(text, into) != nil {
		return errors.New("register a client: the response is not JSON of the expected form")
	}
	if p.StatusCode == http.StatusBadRequest {
		return &AnswerError{Doing: "to register a client", Code: refused.Code, Description: refused.Description, Status: p.StatusCode}
	}
	return nil
}

const (
	// maxScope is the maximum length of one scope from a server, in bytes.
	maxScope = 256
	// maxScopes is the maximum total length of the scopes in a login, in bytes, because they must
	// fit into a URL. Without a limit, a server that refuses every request for yet another scope
	// could make logins impossible.
	maxScopes = 8 << 10
)

// usableScopes returns the scopes specified by a server, except scopes that are invalid (RFC 6749,
// section 3.3) or too long.
func usableScopes(named []string) []string {
	var scopes []string
	size := 0
	for _, scope := range named {
		ok := scope != "" && len(scope) <= maxScope && printable.VisibleASCII(scope) && !strings.ContainsAny(scope, `"\`)
		if size += len(scope) + 1; ok && size <= maxScopes && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		} else {
			size -= len(scope) + 1
		}
	}
	return scopes
}

// chooseScopes returns the scopes to request, in the order of the specification. It adds the scopes
// that were missing in an earlier request, and the scope for refresh tokens if the server supports
// it.
func chooseScopes(t Target, c Challenge, at *discovery, earlier *Login) (scopes []string) {
	for _, choice := range [][]string{t.OAuth.Scopes, c.Scopes, at.scopes} {
		if len(scopes) == 0 {
			scopes = choice
		}
	}
	scopes = slices.Clone(scopes)
	add := func(scope string) {
		if !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	if earlier != nil && earlier.Issuer == at.server.Issuer && len(earlier.Lacking) > 0 {
		// The most recently refused scopes come first, in case not all of them fit.
		for _, scope := range usableScopes(slices.Concat(scopes, earlier.Lacking, earlier.Scopes)) {
			add(scope)
		}
	}
	if slices.Contains(at.server.ScopesSupported, offlineAccess) && t.OAuth.Grant != config.GrantClient {
		add(offlineAccess)
	}
	return scopes
}
