package login

import (
	"net/url"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
)

// Login is the right to use one server, granted to one client by one issuer.
type Login struct {
	Server             string       `json:"server"` // the URL that its token is sent to
	ID                 string       `json:"id"`     // of the server in the config, when the login was made
	Issuer             string       `json:"issuer"`
	Client             Client       `json:"client"`
	Resource           string       `json:"resource,omitempty"`
	Grant              config.Grant `json:"grant"`
	Scopes             []string     `json:"scopes,omitempty"`  // granted, or asked for if the server does not say
	Lacking            []string     `json:"lacking,omitempty"` // scopes missing from the login, for which a request was refused
	Since              time.Time    `json:"since"`             // when the user logged in
	Obtained           time.Time    `json:"obtained"`          // when the token was obtained
	Expires            time.Time    `json:"expires,omitzero"`  // when the token expires; zero: unknown
	Renewable          bool         `json:"renewable"`
	Refused            string       `json:"refused,omitempty"` // why the token cannot be renewed
	Renewing           time.Time    `json:"renewing,omitzero"` // when a renewal began that has not ended, as far as is known; zero: none
	Kind               Kind         `json:"store"`             // where its secrets are
	TokenEndpoint      string       `json:"tokenEndpoint"`
	RevocationEndpoint string       `json:"revocationEndpoint,omitempty"`
	Audience           string       `json:"audience,omitempty"` // of assertions; "", in logins of before there was this field: TokenEndpoint

	// NoKeyring is why the secrets of a new login are in a file although the keyring was
	// preferred.
	NoKeyring error `json:"-"`

	tokens *tokens // a pointer, because fmt would print the fields of a value; never nil
	stored bool
}

func newLogin(t Target, at *place, with Client, scopes []string) *Login {
	l := &Login{Server: t.URL, ID: t.ID, Since: time.Now(), Issuer: at.server.Issuer, Client: with, Resource: at.resource, Grant: config.GrantCode, Scopes: scopes, tokens: new(tokens),
		TokenEndpoint: at.server.TokenEndpoint, RevocationEndpoint: at.server.RevocationEndpoint, Audience: at.audience()}
	if t.OAuth.Grant == config.GrantClient {
		l.Grant = config.GrantClient
	}
	return l
}

// same reports whether l and o have the same issuer, client and grant. Both are logins of one
// server.
func (l *Login) same(o *Login) bool {
	return l.Issuer == o.Issuer && l.Client.ID == o.Client.ID && l.Grant == o.Grant
}

// maxLeeway is the longest time before its expiry at which a token is renewed.
const maxLeeway = 30 * time.Second

// stale reports whether a token should be renewed before it is used.
func (l *Login) stale(now time.Time) bool {
	if l.Expires.IsZero() {
		return false
	}
	leeway := min(maxLeeway, l.Expires.Sub(l.Obtained)/10)
	return !now.Before(l.Expires.Add(-leeway))
}

// Expired reports whether the token's lifetime is over.
func (l *Login) Expired(now time.Time) bool { return !l.Expires.IsZero() && !now.Before(l.Expires) }

// setTokens puts tokens into the login and updates the fields that depend on them.
func (l *Login) setTokens(t tokens) {
	l.tokens, l.Client.secret = &t, config.NewSecret(t.Secret)
	l.Expires, l.Renewable = t.Expiry, t.Refresh != "" || l.Grant == config.GrantClient
}

// renewal returns the parameters of the token request that renews the login.
func (l *Login) renewal() url.Values {
	if l.Grant == config.GrantClient {
		return l.clientGrant()
	}
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {l.tokens.Refresh}}
}
