package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/ipscope"
)

// OAuth specifies how to log in to a server. With the zero value, everything is discovered from the
// server.
type OAuth struct {
	ClientID          string
	ClientSecret      Secret
	PrivateKeyFile    string // absolute path of the PEM key used to authenticate the client
	ClientMetadataURL string // URL of the client's metadata, which is also the client ID
	Scopes            []string
	CallbackPort      int // local port for the browser to return to; 0 means any
	// RedirectURI is the registered URL to which the browser returns after a login; if it is empty,
	// a local URL is used.
	RedirectURI string
	Grant       Grant
	// AuthServerMetadataURL is the URL of the authorization server's metadata, for servers that do
	// not announce it and for clients with a secret.
	AuthServerMetadataURL string
}

// Grant specifies how a token is obtained.
type Grant string

// The values of "grant". An empty value means GrantCode.
const (
	GrantCode   Grant = "authorization_code" // a user logs in with a browser
	GrantClient Grant = "client_credentials" // the client acts on its own behalf, without a user
)

// cursorRedirect is the redirect URI of clients registered for use with Cursor, whose config format
// has no key for it (cursor.com/docs/mcp).
const cursorRedirect = "http://localhost:8787/callback"

// oauth reads the keys "oauth", "auth" (Cursor and Mistral Vibe), "scopes" (Codex) and "oauthScopes" (Kiro). It ignores strings and
// booleans, which other hosts store under these keys.
func (e *entry) oauth(_ []string, s *Server) {
	f, ok := e.field("oauth")
	isObject := ok && f.value.Kind == tree.Object
	if ok && !isObject && f.value.Kind != tree.Bool {
		e.invalid(f, "object", `write {"clientId": "…"}, or nothing at all`)
	}
	if s.Transport == TransportStdio { // a stdio server does not need a login, but the keys are still checked
		if isObject {
			e.oauthMembers(f, new(OAuth))
		}
		return
	}
	auth, ok := e.field("auth")
	if ok = ok && auth.value.Kind == tree.Object; ok && typeOf(auth.value) != "static" {
		e.oauthMembers(auth, &s.OAuth)
	}
	if isObject {
		e.oauthMembers(f, &s.OAuth)
	}
	if ok && typeOf(auth.value) == "" && s.OAuth.ClientID != "" && s.OAuth.CallbackPort == 0 && s.OAuth.RedirectURI == "" {
		s.OAuth.RedirectURI = cursorRedirect
	}
	for _, name := range []string{"scopes", "oauthScopes"} {
		if f, ok := e.field(name); ok && f.value.Kind == tree.List && len(s.OAuth.Scopes) == 0 {
			e.oauthScopes([]string{name}, &s.OAuth)
		}
	}
}

// typeOf returns the type of an "auth" object: "" in Cursor, "oauth" or, with headers, "static" in Mistral Vibe.
func typeOf(auth *tree.Node) string {
	if m := auth.Get("type"); m != nil {
		return m.Value.Text
	}
	return ""
}

// oauthMembers reads the object stored under one of these keys.
func (e *entry) oauthMembers(f field, o *OAuth) {
	in := e.inside(f)
	foreign := foreignOAuthKeys()
	for _, k := range e.oauthKeys {
		k.fill(in, o)
		foreign = append(foreign, k.host...)
	}
	in.unknownKeys(f.value, f.path, fmt.Sprintf("%s %q", e.label, f.name), e.oauthKeys.names(), foreign)
}

// privateKeyFile reads the path of a private key file. A relative path is resolved against the
// workspace.
func (e *entry) privateKeyFile(spellings []string, o *OAuth) {
	path, f, ok := e.text(spellings...)
	if !ok || path == "" {
		return
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.expander.workspace, path)
	}
	o.PrivateKeyFile = path
	e.expander.refersTo(path)
	e.expander.use(e.expander.fileUse(f.value.Text, path, ""))
	if problem := e.expander.refused(path); problem != "" {
		e.lacks(f.value, f.path, CodeFileReference, `"privateKeyFile" `+problem, refusedHint)
	}
}

func (e *entry) callbackPort(spellings []string, o *OAuth) {
	f, ok := e.find(spellings...)
	if !ok {
		return
	}
	port, err := strconv.ParseUint(f.value.Text, 10, 16)
	if f.value.Kind != tree.Number || err != nil || port == 0 {
		e.invalid(f, "port from 1 to 65535", "")
		return
	}
	o.CallbackPort = int(port)
}

// redirect reads the redirect URI. An invalid URI is only a warning, because it may be intended for
// another host.
func (e *entry) redirect(spellings []string, o *OAuth) {
	value, f, ok := e.text(spellings...)
	if !ok || value == "" {
		return
	}
	if u, err := url.Parse(value); err != nil || u.Scheme == "" || u.Host == "" && u.Opaque == "" && u.Path == "" {
		e.warnAt(f.value.Offset, f.path, CodeURL, fmt.Sprintf("%s has invalid %q, which is ignored because it is not a URL", e.label, f.name), `write "http://localhost:PORT/callback"`)
		return
	}
	o.RedirectURI = value
}

// endpoint reads a URL to which requests are sent.
func (e *entry) endpoint(spellings []string, into *string) {
	value, f, ok := e.text(spellings...)
	if !ok {
		return
	}
	*into = value
	u, what, hint := checkURL(value)
	if what == "" && !strings.EqualFold(u.Scheme, "https") && !ipscope.Loopback(u.Hostname()) {
		what = "its scheme must be https"
	}
	if what != "" {
		e.invalidValue(f.value, f.path, CodeURL, fmt.Sprintf("invalid %q; %s", f.name, what), hint)
	}
}

// oauthScopes reads scopes, given as a list or as a space-separated string.
func (e *entry) oauthScopes(spellings []string, o *OAuth) {
	f, ok := e.find(spellings...)
	if !ok {
		return
	}
	var values []string
	switch f.value.Kind {
	case tree.String:
		if value, ok := e.expand(f.value, f.path, f.name); ok {
			values = strings.Fields(value)
		}
	case tree.List:
		values = e.list(f.name, nil, "")
	default:
		e.invalid(f, "array of strings", `write ["…"]`)
	}
	if len(values) > 0 {
		o.Scopes = slices.Compact(values)
	}
}
