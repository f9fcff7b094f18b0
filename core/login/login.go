package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/guarded"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Login represents the permission to use one server, granted to one client by one issuer.
type Login struct {
	Server             string       `json:"server"` // URL to which the token is sent
	ID                 string       `json:"id"`     // the server's id in the config at the time of the login
	Issuer             string       `json:"issuer"`
	Client             OAuthClient  `json:"client"`
	Resource           string       `json:"resource,omitempty"`
	Grant              config.Grant `json:"grant"`
	Scopes             []string     `json:"scopes,omitempty"`  // granted scopes, or requested ones if the response did not specify them
	Lacking            []string     `json:"lacking,omitempty"` // missing scopes that caused a request to be refused
	Since              time.Time    `json:"since"`             // when the user logged in
	Obtained           time.Time    `json:"obtained"`          // when the current token was obtained
	Expires            time.Time    `json:"expires,omitzero"`  // when the token expires; zero if unknown
	Renewable          bool         `json:"renewable"`
	Refused            string       `json:"refused,omitempty"` // why the token cannot be renewed
	Renewing           time.Time    `json:"renewing,omitzero"` // start of a renewal that has not completed; zero if none
	Kind               Kind         `json:"store"`             // where the secrets are stored
	TokenEndpoint      string       `json:"tokenEndpoint"`
	RevocationEndpoint string       `json:"revocationEndpoint,omitempty"`
	Audience           string       `json:"audience,omitempty"` // of assertions

	// NoKeyring is the reason why the secrets of a new login are in a file although the keyring was
	// preferred; nil if they are not.
	NoKeyring error `json:"-"`

	tokens *tokens // never nil; a pointer, because fmt would print the fields of a value
	stored bool
}

func newLogin(t Target, at *discovery, with OAuthClient, scopes []string) *Login {
	l := &Login{Server: t.URL, ID: t.ID, Since: time.Now(), Issuer: at.server.Issuer, Client: with, Resource: at.resource, Grant: config.GrantCode, Scopes: scopes, tokens: new(tokens),
		TokenEndpoint: at.server.TokenEndpoint, RevocationEndpoint: at.server.RevocationEndpoint, Audience: at.audience()}
	if t.OAuth.Grant == config.GrantClient {
		l.Grant = config.GrantClient
	}
	return l
}

// replaces reports whether l replaces o, that is, whether both have the same issuer, client and
// grant. Both must be logins for the same server.
func (l *Login) replaces(o *Login) bool {
	return l.Issuer == o.Issuer && l.Client.ID == o.Client.ID && l.Grant == o.Grant
}

// maxLeeway is the maximum time before expiry at which a token is renewed.
const maxLeeway = 30 * time.Second

// stale reports whether the token must be renewed before it is used.
func (l *Login) stale(now time.Time) bool {
	if l.Expires.IsZero() {
		return false
	}
	leeway := min(maxLeeway, l.Expires.Sub(l.Obtained)/10)
	return !now.Before(l.Expires.Add(-leeway))
}

// Expired reports whether the token has expired.
func (l *Login) Expired(now time.Time) bool { return !l.Expires.IsZero() && !now.Before(l.Expires) }

// setTokens sets the tokens and the fields that depend on them.
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

// Target describes a server that may require a login.
type Target struct {
	ID    string // server id in the config; used in messages
	URL   string // without user info, query and fragment, because they may be secret
	OAuth config.OAuth

	flags string // appended to the login command; see [Options]
}

// TargetOf returns the target for a server in the config. Its URL is empty unless the server uses
// HTTP.
func TargetOf(srv config.Server) Target {
	t := Target{ID: srv.ID, OAuth: srv.OAuth}
	if srv.Transport != config.TransportHTTP && srv.Transport != config.TransportSSE {
		return t
	}
	if u, err := url.Parse(srv.URL.Reveal()); err == nil && u.Host != "" {
		u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
		u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
		t.URL = u.String()
	}
	return t
}

// Command returns the command line with which the user can log in to the server.
func (t Target) Command() string {
	return strings.TrimSpace("mcptrack login " + printable.Shell(printable.Line(t.ID, 128)) + " " + t.flags)
}

// matches reports whether a login fits the target's config: the grant must be the same and, if the
// config specifies a client ID, the client ID, too.
func (t Target) matches(l *Login) bool {
	if id := t.OAuth.ClientID; id != "" && l.Client.ID != id {
		return false
	}
	return (t.OAuth.Grant == config.GrantClient) == (l.Grant == config.GrantClient)
}

// newClient returns the HTTP client for requests to the metadata of a server and to its authorization
// servers.
func newClient(ctx context.Context, server string) *http.Client {
	return guarded.New(ctx, guarded.Options{Server: server}).Client()
}

// binds reports whether a resource identifier covers a URL: both have the same origin, and the
// identifier's path equals or is a parent of the URL's path.
func binds(resource, address string) bool {
	r, err := url.Parse(resource)
	if err != nil || r.User != nil || r.Fragment != "" || r.RawQuery != "" || guarded.Origin(resource) == "" || guarded.Origin(resource) != guarded.Origin(address) {
		return false
	}
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	have, want := segments(u), segments(r)
	return len(want) <= len(have) && slices.Equal(want, have[:len(want)])
}

func segments(u *url.URL) []string {
	path := strings.Trim(u.EscapedPath(), "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// ErrNone reports that there is no login for a server.
var ErrNone = errors.New("not logged in")

// A RequiredError reports that the user must log in again.
type RequiredError struct {
	Target Target
	Reason string // printable reason
}

func (e *RequiredError) Error() string {
	return fmt.Sprintf("%s; run %s", e.Reason, e.Target.Command())
}

// An UnnamedError reports that the MCP server refers a configured client to a different
// authorization server than before. If the client belongs to it, the user can specify that
// authorization server in the config.
type UnnamedError struct {
	Client, Issuer string // both printable
	Metadata       string // printable metadata URL for use in the config; empty if none is published
}

func (e *UnnamedError) Error() string {
	return fmt.Sprintf("the server now specifies a different authorization server, %s, and the config does not specify that the client %s belongs to it", e.Issuer, e.Client)
}

// An AnswerError is an error response from an authorization server.
type AnswerError struct {
	Doing       string // the action that failed
	Code        string // OAuth error code (RFC 6749); empty if the response had none
	Description string
	Status      int // HTTP status; 0 if the error was received through the browser
}

func (e *AnswerError) Error() string {
	text := "the authorization server refused " + e.Doing
	if e.Code == "" {
		return fmt.Sprintf("%s (HTTP status %d)", text, e.Status)
	}
	text += ": " + printable.Line(e.Code, 100)
	if e.Description != "" {
		text += " (" + printable.Line(e.Description, 300) + ")"
	}
	return text
}

// final reports whether repeating the same request would fail again.
func (e *AnswerError) final() bool {
	switch {
	case e.Status == 429 || e.Status >= 500:
		return false
	case e.Code == "temporarily_unavailable" || e.Code == "server_error" || e.Code == "slow_down":
		return false
	}
	return e.Code != "" || e.Status == 400 || e.Status == 401
}
