package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// A Flow is one login of a user with a browser: it begins with the URL to open and ends with a
// stored Login.
type Flow struct {
	URL string // to open in the browser

	target   Target
	store    *Store
	redirect string
	scopes   []string
	at       *place
	with     Client
	reused   bool // the client was registered for an earlier login
	state    string
	verifier string
}

// Begin starts a login to a target that refused a request with the challenge: it discovers the
// authorization server and chooses the client. The browser will be sent back to redirect.
// scopes, if there are any, are requested in place of those of the config and the server. The
// error is [ErrNoClient] if the user has to register a client first, and an [*UnnamedError] if the
// config has to name the authorization server first.
func (s *Store) Begin(ctx context.Context, t Target, c Challenge, redirect string, scopes []string) (*Flow, error) {
	client := s.client(ctx, t.URL)
	at, err := discover(ctx, client, t, c)
	if err != nil {
		return nil, err
	}
	if at.server.AuthorizationEndpoint == "" {
		return nil, errors.New("the authorization server does not support logins of users (it has no authorization endpoint)")
	}
	earlier := s.earlier(t)
	f := &Flow{target: t, store: s, redirect: redirect, at: at, state: rand.Text(), verifier: oauth2.GenerateVerifier()}
	f.scopes = chooseScopes(t, c, at, earlier, scopes)
	if f.with, f.reused, err = f.client(ctx, client, at.server, earlier); err != nil {
		return nil, err
	}
	f.URL = f.authorizationURL()
	return f, nil
}

// offlineAccess is the scope for which OpenID Connect issues refresh tokens.
const offlineAccess = "offline_access"

func (f *Flow) authorizationURL() string {
	c := oauth2.Config{ClientID: f.with.ID, RedirectURL: f.redirect, Scopes: f.scopes,
		Endpoint: oauth2.Endpoint{AuthURL: f.at.server.AuthorizationEndpoint}}
	opts := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(f.verifier)}
	if f.at.resource != "" {
		opts = append(opts, oauth2.SetAuthURLParam("resource", f.at.resource))
	}
	if slices.Contains(f.scopes, offlineAccess) {
		opts = append(opts, oauth2.SetAuthURLParam("prompt", "consent")) // OpenID Connect requires it for offline_access
	}
	return c.AuthCodeURL(f.state, opts...)
}

// Abandon records that the login was not finished. If it used a client registered for an
// earlier login, the authorization server may have forgotten that client, and would say so only
// in the browser: the next login registers a new one.
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

// Issuer returns the authorization server.
func (f *Flow) Issuer() string { return printable.Line(f.at.server.Issuer, 200) }

// Ours reports whether the query of a redirect is an answer to this flow.
func (f *Flow) Ours(answer url.Values) bool {
	return subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(f.state)) == 1
}

// Finish obtains and stores the login. answer is the query that the browser came back
// with.
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
	err := l.requestToken(ctx, f.store.client(ctx, f.target.URL), f.target, "the login", url.Values{
		"grant_type": {"authorization_code"}, "code": {answer.Get("code")},
		"redirect_uri": {f.redirect}, "code_verifier": {f.verifier},
	})
	if err != nil {
		return nil, err
	}
	return l, f.store.Put(ctx, f.target, l)
}

// checkIssuer checks that the answer comes from the authorization server that was asked (RFC
// 9207): an attacker's server could answer in its place to get a code.
func checkIssuer(answer url.Values, m *oauthex.AuthServerMeta) error {
	switch iss := answer.Get("iss"); {
	case iss == "" && m.AuthorizationResponseIssParameterSupported:
		return errors.New(`the redirected URL lacks "iss", which names the authorization server`)
	case iss != "" && iss != m.Issuer:
		return fmt.Errorf("the redirected URL comes from another authorization server, %s", printable.Line(iss, 200))
	}
	return nil
}

// earlier returns the login that a new one replaces; nil if there is none, or it cannot be read.
func (s *Store) earlier(t Target) *Login {
	l, err := s.Get(t)
	if err != nil {
		return nil
	}
	return l
}

// Offers reports whether a target that did not refuse a request still offers logins.
func (s *Store) Offers(ctx context.Context, t Target) bool {
	m, err := resourceMetadata(ctx, s.client(ctx, t.URL), t, Challenge{})
	return err == nil && m != nil
}

// Obtain obtains and stores a login by the client credentials grant, without a user. The error is
// an [*UnnamedError] if the config has to name the authorization server first.
func (s *Store) Obtain(ctx context.Context, t Target, c Challenge) (*Login, error) {
	l, err := s.obtain(ctx, s.client(ctx, t.URL), t, c)
	if err != nil {
		return nil, err
	}
	return l, s.Put(ctx, t, l)
}

// obtain obtains a login by the client credentials grant, and does not store it.
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
	l := newLogin(t, at, with, chooseScopes(t, c, at, nil, nil))
	return l, l.requestToken(ctx, client, t, "a token", l.clientGrant())
}

func (l *Login) clientGrant() url.Values {
	grant := url.Values{"grant_type": {string(config.GrantClient)}}
	if len(l.Scopes) > 0 {
		grant.Set("scope", strings.Join(l.Scopes, " "))
	}
	return grant
}
