package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Client is our identity at an authorization server.
type Client struct {
	ID     string `json:"id"`
	Method string `json:"method"` // how it authenticates: none, client_secret_basic, client_secret_post, private_key_jwt
	// Registered says that we registered the client ourselves, with the redirect URI in
	// Redirect.
	Registered bool      `json:"registered,omitempty"`
	Redirect   string    `json:"redirect,omitempty"`
	Expires    time.Time `json:"expires,omitzero"` // when its secret expires; zero: never

	secret config.Secret // stored with the tokens
}

// The methods of client authentication.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodJWT   = "private_key_jwt"
)

// ErrNoClient is the error of a login that needs a client registered by the user.
var ErrNoClient = errors.New("the authorization server does not support client registration")

// configuredClient returns the client that the config names; ok is false if it names none.
func configuredClient(t Target, m *oauthex.AuthServerMeta) (Client, bool) {
	o := t.OAuth
	if o.ClientID == "" {
		return Client{}, false
	}
	c := Client{ID: o.ClientID, secret: o.ClientSecret, Method: methodNone}
	switch offered := m.TokenEndpointAuthMethodsSupported; {
	case o.PrivateKeyFile != "":
		c.Method = methodJWT
	case c.secret.IsZero():
	case slices.Contains(offered, methodPost) && !slices.Contains(offered, methodBasic):
		c.Method = methodPost
	default:
		c.Method = methodBasic // the default of RFC 8414
	}
	return c, true
}

// client chooses the client of a login, in the order of the specification: the one in the
// config, one identified by a metadata URL, one registered for an earlier login (reused), or a
// new one.
func (f *Flow) client(ctx context.Context, client *http.Client, m *oauthex.AuthServerMeta, earlier *Login) (c Client, reused bool, err error) {
	if c, ok := configuredClient(f.target, m); ok {
		return c, false, f.at.entrust(f.target, c, earlier)
	}
	if f.target.OAuth.ClientMetadataURL != "" && m.ClientIDMetadataDocumentSupported {
		return Client{ID: f.target.OAuth.ClientMetadataURL, Method: methodNone}, false, nil
	}
	// The token endpoint gets the client's secret, and metadata may claim any issuer.
	if earlier != nil && earlier.Issuer == m.Issuer && earlier.TokenEndpoint == m.TokenEndpoint && earlier.Client.Registered && earlier.Refused == "" &&
		earlier.Client.Redirect == f.redirect && (earlier.Client.Expires.IsZero() || time.Now().Before(earlier.Client.Expires)) {
		return earlier.Client, true, nil
	}
	if m.RegistrationEndpoint == "" {
		return Client{}, false, ErrNoClient
	}
	c, err = register(ctx, client, m, f.redirect, f.scopes)
	return c, false, err
}

// register registers a client (RFC 7591).
func register(ctx context.Context, client *http.Client, m *oauthex.AuthServerMeta, redirect string, scopes []string) (Client, error) {
	method := methodNone
	if offered := m.TokenEndpointAuthMethodsSupported; len(offered) > 0 && !slices.Contains(offered, methodNone) {
		method = methodPost
		if slices.Contains(offered, methodBasic) {
			method = methodBasic
		}
	}
	p, err := oauthex.RegisterClient(ctx, m.RegistrationEndpoint, &oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, ClientName: "mcptrack", SoftwareID: "mcptrack", ApplicationType: "native",
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		TokenEndpointAuthMethod: method, Scope: strings.Join(scopes, " "),
	}, client)
	if answer, ok := errors.AsType[*oauthex.ClientRegistrationError](err); ok {
		return Client{}, &AnswerError{Doing: "to register a client", Code: answer.ErrorCode, Description: answer.ErrorDescription, Status: http.StatusBadRequest}
	} else if err != nil {
		return Client{}, fmt.Errorf("register a client: %w", registrationError(err))
	}
	c := Client{ID: p.ClientID, secret: config.NewSecret(p.ClientSecret), Registered: true, Redirect: redirect, Expires: p.ClientSecretExpiresAt, Method: p.TokenEndpointAuthMethod}
	if c.Method == "" {
		c.Method = method
	}
	if c.secret.IsZero() {
		c.Method = methodNone
	}
	if !slices.Contains([]string{methodNone, methodBasic, methodPost}, c.Method) {
		return Client{}, fmt.Errorf("the authorization server requires clients to authenticate with %s, which is not supported", printable.Line(c.Method, 60))
	}
	return c, nil
}

// registrationError returns the error without the answer of the server, which may contain a
// secret.
func registrationError(err error) error {
	if before, _, ok := strings.Cut(err.Error(), "failed with status"); ok && before != err.Error() {
		_, status, _ := strings.Cut(err.Error(), "failed with status ")
		status, _, _ = strings.Cut(status, ":")
		return fmt.Errorf("the authorization server responded with HTTP status %s", printable.Line(status, 60))
	}
	if strings.Contains(err.Error(), "failed to decode") {
		return errors.New("the response is not JSON of the expected form")
	}
	return clean(err)
}
