package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/guarded"
	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// discoveryTimeout limits the time for one discovery.
	discoveryTimeout = 45 * time.Second
	// maxIssuers is the maximum number of authorization servers to try for one MCP server.
	maxIssuers = 3
)

// Challenge holds the contents of the WWW-Authenticate headers in the response to a refused
// request.
type Challenge struct {
	Metadata    string // URL of the server's resource metadata
	Scopes      []string
	Code        string // such as invalid_token or insufficient_scope
	Description string
	Basic       bool // the server requires a password (Basic authentication) instead
}

// ParseChallenge parses the values of the WWW-Authenticate headers. It ignores any value that it
// cannot parse.
func ParseChallenge(values []string) Challenge {
	var c Challenge
	for _, value := range values {
		for _, one := range parseSchemes(value) {
			switch {
			case one.name == "basic":
				c.Basic = true
			case one.name == "bearer" && c.Metadata == "" && c.Code == "":
				c.Metadata, c.Code, c.Description = one.params["resource_metadata"], one.params["error"], one.params["error_description"]
				c.Scopes = usableScopes(strings.Fields(one.params["scope"]))
			}
		}
	}
	return c
}

// Reason returns the reason that the server specified, as one printable line, or "" if it specified
// none.
func (c Challenge) Reason() string {
	if c.Description != "" {
		return printable.Line(c.Description, 300)
	}
	return printable.Line(c.Code, 100)
}

// discovery describes how to log in to a server: its resource identifier and its authorization
// server.
type discovery struct {
	resource string
	scopes   []string // scopes that the server supports
	server   *serverMeta
	metadata string // URL of the authorization server's metadata; empty if it publishes none
}

// audience returns the audience for client assertions sent to the authorization server. It is the
// issuer if the issuer itself published the metadata (RFC 8414, section 3.3). Metadata from another
// address may claim any issuer; the audience is then the token endpoint, which receives the
// assertion and is the only place where it is valid.
func (at *discovery) audience() string {
	if slices.Contains(metadataPlaces(at.server.Issuer), at.metadata) {
		return at.server.Issuer
	}
	return at.server.TokenEndpoint
}

// entrust returns an [*UnnamedError] if the configured client was previously used with another
// authorization server, unless the config specifies the current one. Otherwise the MCP server,
// which chose both, could direct the client's credentials to any server. On first use the MCP
// server is trusted, because the config contains credentials for it without specifying the
// authorization server that they belong to.
func (at *discovery) entrust(t Target, c OAuthClient, earlier *Login) error {
	if t.OAuth.AuthServerMetadataURL != "" || earlier == nil || earlier.Issuer == at.server.Issuer {
		return nil
	}
	return &UnnamedError{printable.Line(c.ID, 100), printable.Line(at.server.Issuer, 200), printable.Line(at.metadata, 400)}
}

// discover finds the authorization server for a target, and its metadata.
func discover(ctx context.Context, client *http.Client, t Target, c Challenge) (*discovery, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, discoveryTimeout, errors.New("the discovery of the authorization server timed out"))
	defer cancel()
	at, err := discoverOnce(ctx, client, t, c)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return at, err
}

func discoverOnce(ctx context.Context, client *http.Client, t Target, c Challenge) (*discovery, error) {
	resource, err := resourceMetadata(ctx, client, t, c)
	if err != nil {
		return nil, err
	}
	at := &discovery{resource: t.URL}
	issuers := []string{guarded.Origin(t.URL)} // the fallback defined in MCP 2025-03-26
	if resource != nil {
		at.resource, at.scopes, issuers = resource.Resource, usableScopes(resource.ScopesSupported), resource.AuthorizationServers
	}
	if address := t.OAuth.AuthServerMetadataURL; address != "" {
		at.server, err = configuredServer(ctx, client, address)
		at.metadata = address
		return at, err
	}
	var failed error
	for _, issuer := range issuers[:min(len(issuers), maxIssuers)] {
		at.server, at.metadata, err = serverMetadata(ctx, client, issuer)
		if err == nil && at.server == nil && resource == nil {
			at.server = &serverMeta{Issuer: issuer, AuthorizationEndpoint: issuer + "/authorize",
				TokenEndpoint: issuer + "/token", RegistrationEndpoint: issuer + "/register"}
		}
		if err == nil && at.server == nil {
			err = fmt.Errorf("the authorization server %s publishes no metadata", printable.Line(issuer, 200))
		}
		if err == nil {
			return at, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// resourceMetadata returns the protected resource metadata of the server (RFC 9728), or nil if it
// has none.
func resourceMetadata(ctx context.Context, client *http.Client, t Target, c Challenge) (*resourceMeta, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, errors.New("the URL is not an absolute http or https URL")
	}
	root := guarded.Origin(t.URL) + "/.well-known/oauth-protected-resource"
	places := []string{root}
	if path := strings.Trim(u.EscapedPath(), "/"); path != "" {
		places = []string{root + "/" + path, root}
	}
	if c.Metadata != "" {
		if guarded.Origin(c.Metadata) != guarded.Origin(t.URL) {
			return nil, fmt.Errorf("the URL of the server's metadata has a different origin than the server: %s", printable.Line(c.Metadata, 200))
		}
		places = append([]string{c.Metadata}, places...)
	}
	for _, place := range places {
		var m resourceMeta
		found, err := getJSON(ctx, client, place, &m)
		switch {
		case err != nil:
			return nil, fmt.Errorf("metadata of the server: %w", err)
		case !found:
			continue
		case !binds(m.Resource, t.URL):
			return nil, fmt.Errorf("the server's metadata describes a different resource: %q", printable.Line(m.Resource, 200))
		case len(m.AuthorizationServers) == 0 && t.OAuth.AuthServerMetadataURL == "":
			return nil, errors.New("the server's metadata does not specify an authorization server")
		}
		return &m, nil
	}
	return nil, nil
}

// metadataPlaces returns the URLs at which an issuer may publish its metadata, or none if issuer is
// not a valid issuer URL.
func metadataPlaces(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || !printable.VisibleASCII(issuer) {
		return nil
	}
	base, path := guarded.Origin(issuer), strings.Trim(u.EscapedPath(), "/")
	places := []string{base + "/.well-known/oauth-authorization-server", base + "/.well-known/openid-configuration"}
	if path != "" {
		places = []string{places[0] + "/" + path, places[1] + "/" + path, base + "/" + path + "/.well-known/openid-configuration"}
	}
	return places
}

// serverMetadata returns the metadata of an authorization server and the URL at which it was found,
// or nil if there is none.
func serverMetadata(ctx context.Context, client *http.Client, issuer string) (m *serverMeta, at string, err error) {
	places := metadataPlaces(issuer)
	if places == nil {
		return nil, "", fmt.Errorf("the server specifies an authorization server that is not a URL: %q", printable.Line(issuer, 200))
	}
	var failed error
	for _, place := range places {
		m, err := readMetadata(ctx, client, place, issuer)
		switch {
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("metadata of the authorization server: %w", err))
		case m != nil:
			return m, place, nil
		}
	}
	return nil, "", failed
}

// configuredServer returns the authorization server's metadata from an address specified in the
// config. It accepts any issuer; see audience for the consequences.
func configuredServer(ctx context.Context, client *http.Client, address string) (*serverMeta, error) {
	m, err := readMetadata(ctx, client, address, "")
	if err == nil && m == nil {
		err = fmt.Errorf("%s: there is no metadata", printable.Line(address, 200))
	}
	if err != nil {
		return nil, fmt.Errorf("metadata of the authorization server: %w", err)
	}
	return m, nil
}

// readMetadata reads the metadata of an issuer, or of any issuer if it is empty, from an address. It
// returns nil if there is none. Issuers that differ in a final slash only are equal.
func readMetadata(ctx context.Context, client *http.Client, address, issuer string) (*serverMeta, error) {
	if !secure(address) {
		return nil, fmt.Errorf("the URL does not use https: %s", printable.Line(address, 200))
	}
	var m serverMeta
	found, err := getJSON(ctx, client, address, &m)
	if err != nil || !found {
		return nil, err
	}
	if issuer != "" && strings.TrimSuffix(m.Issuer, "/") != strings.TrimSuffix(issuer, "/") {
		return nil, fmt.Errorf("its issuer %q does not match %q", printable.Line(m.Issuer, 200), printable.Line(issuer, 200))
	}
	return &m, usable(&m)
}

// secure reports whether a URL uses https, or http on this machine.
func secure(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && ipscope.Loopback(u.Hostname()))
}

// usable validates that the endpoints exist, that they can be trusted and displayed, and that PKCE
// with S256 is supported.
func usable(m *serverMeta) error {
	if m.TokenEndpoint == "" || !slices.Contains(m.CodeChallengeMethodsSupported, "S256") {
		return errors.New("the metadata contains no token endpoint, or PKCE with S256 is not supported")
	}
	endpoints := []string{m.AuthorizationEndpoint, m.TokenEndpoint, m.RegistrationEndpoint, m.RevocationEndpoint}
	for _, address := range append(endpoints, m.Issuer) { // terminals, browsers and logs display them
		if !printable.VisibleASCII(address) {
			return fmt.Errorf("a URL contains characters that must be encoded: %s", printable.Line(address, 200))
		}
	}
	for _, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		if endpoint == "" {
			continue
		}
		if err != nil || !secure(endpoint) {
			return fmt.Errorf("an endpoint does not use https: %s", printable.Line(endpoint, 200))
		}
		if u.User != nil || u.Fragment != "" { // a user name before the @ can be mistaken for the host
			return fmt.Errorf("an endpoint URL contains a user name or a fragment: %s", printable.Line(endpoint, 200))
		}
		for _, name := range []string{"client_id", "redirect_uri", "response_type", "state", "scope", "resource", "code_challenge"} {
			if u.Query().Has(name) { // it is undefined which of the two values takes precedence
				return fmt.Errorf("an endpoint already has the parameter %q: %s", name, printable.Line(endpoint, 200))
			}
		}
	}
	return nil
}

// getJSON reads a JSON document. found is false if the server responds that the document does not
// exist.
func getJSON(ctx context.Context, client *http.Client, address string, into any) (found bool, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return false, errors.New("invalid URL")
	}
	q.Header.Set("Accept", "application/json")
	p, err := client.Do(q)
	if err != nil {
		return false, guarded.WithoutQuery(err)
	}
	defer func() { _ = p.Body.Close() }()
	switch {
	case p.StatusCode >= 400 && p.StatusCode < 500 && p.StatusCode != http.StatusTooManyRequests:
		return false, nil
	case p.StatusCode != http.StatusOK:
		return false, fmt.Errorf("%s: HTTP status %d", guarded.ShowURL(q.URL), p.StatusCode)
	case strings.Contains(p.Header.Get("Content-Type"), "html"):
		return false, nil // an HTML page that the server returns for any path
	}
	text, err := io.ReadAll(p.Body)
	if err != nil {
		return false, fmt.Errorf("%s: %w", guarded.ShowURL(q.URL), err)
	}
	if json.Unmarshal(text, into) != nil {
		return false, fmt.Errorf("%s: the response is not JSON of the expected form", guarded.ShowURL(q.URL))
	}
	return true, nil
}
