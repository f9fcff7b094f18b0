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

// OAuth says how to log in to a server. With the zero value everything is discovered from the
// server.
type OAuth struct {
	ClientID          string
	ClientSecret      Secret
	PrivateKeyFile    string // absolute path of the PEM key that the client authenticates with
	ClientMetadataURL string // the client ID of a client whose metadata is published at this URL
	Scopes            []string
	CallbackPort      int // 0: any
	// RedirectURI is where the browser returns after a login, as registered for the client; "":
	// a URL of this machine.
	RedirectURI string
	Grant       Grant
	// AuthServerMetadataURL is the address of the authorization server's metadata, for servers
	// that do not announce it, and for clients with a secret.
	AuthServerMetadataURL string
}

// Grant is how a token is obtained.
type Grant string

// The choices of "grant". The empty one is GrantCode.
const (
	GrantCode   Grant = "authorization_code" // a user logs in with a browser
	GrantClient Grant = "client_credentials" // the client acts for itself, without a user
)

// cursorRedirect is where the browser returns after a login in Cursor, which has no key for it:
// clients for Cursor are registered with this URL (cursor.com/docs/mcp).
const cursorRedirect = "http://localhost:8787/callback"

// oauthKeys reads how to log in, by our keys and those of other hosts.
type oauthKeys struct{ *entry }

// oauth reads the keys "oauth", "auth" (Cursor) and "scopes" (Codex). Strings and booleans,
// which other hosts also write there, are ignored.
func (e oauthKeys) oauth(s *Server) {
	f, ok := e.field("oauth")
	if ok && f.value.Kind != tree.Object && f.value.Kind != tree.Bool {
		e.invalid(f, "object", `write {"clientId": "…"}, or nothing at all`)
	}
	if s.Transport == TransportStdio { // a program needs no login, but the keys are still checked
		if ok && f.value.Kind == tree.Object {
			e.object(f, &Server{ID: s.ID, Enabled: s.Enabled})
		}
		return
	}
	cursor, isCursor := e.field("auth")
	isCursor = isCursor && cursor.value.Kind == tree.Object
	if isCursor {
		e.object(cursor, s)
	}
	if ok && f.value.Kind == tree.Object {
		e.object(f, s)
	}
	if isCursor && s.OAuth.ClientID != "" && s.OAuth.CallbackPort == 0 && s.OAuth.RedirectURI == "" {
		s.OAuth.RedirectURI = cursorRedirect
	}
	if f, ok := e.field("scopes"); ok && len(s.OAuth.Scopes) == 0 && f.value.Kind == tree.List {
		s.OAuth.Scopes = e.scopes(e.entry, "scopes")
	}
}

// object reads the members of one of these keys.
func (e oauthKeys) object(f field, s *Server) {
	in := e.reader.entry(f.value, f.path, e.label)
	in.server, in.missing = s, e.missing
	o := &s.OAuth
	for _, m := range []struct {
		name string
		into *string
	}{
		{"clientId", &o.ClientID}, {"privateKeyFile", &o.PrivateKeyFile},
		{"clientMetadataUrl", &o.ClientMetadataURL}, {"authServerMetadataUrl", &o.AuthServerMetadataURL},
	} {
		if value, _, ok := in.text(oauthSpellings(m.name)...); ok {
			*m.into = value
		}
	}
	if value, at, ok := in.text(oauthSpellings("clientSecret")...); ok {
		in.plaintext("clientSecret", at.value, at.path, quote(at.name))
		o.ClientSecret = NewSecret(value)
	}
	for _, name := range []string{"clientMetadataUrl", "authServerMetadataUrl"} {
		e.endpoint(in, name)
	}
	if o.PrivateKeyFile != "" && !filepath.IsAbs(o.PrivateKeyFile) {
		o.PrivateKeyFile = filepath.Join(e.expander.workspace, o.PrivateKeyFile)
	}
	if f, ok := in.find("privateKeyFile"); ok && o.PrivateKeyFile != "" {
		e.expander.refersTo(o.PrivateKeyFile)
		e.expander.use(e.expander.fileUse(f.value.Text, o.PrivateKeyFile, ""))
		if problem := e.expander.refused(o.PrivateKeyFile); problem != "" {
			in.lacks(f.value, f.path, CodeFileReference, `"privateKeyFile" `+problem, refusedHint)
		}
	}
	e.redirect(in, o)
	if scopes := e.scopes(in, oauthSpellings("scopes")...); len(scopes) > 0 {
		o.Scopes = scopes
	}
	if at, ok := in.find(oauthSpellings("callbackPort")...); ok {
		if port, err := strconv.ParseUint(at.value.Text, 10, 16); at.value.Kind != tree.Number || err != nil || port == 0 {
			in.invalid(at, "port from 1 to 65535", "")
		} else {
			o.CallbackPort = int(port)
		}
	}
	o.Grant, _, _ = choice(in, o.Grant, map[string]Grant{string(GrantCode): GrantCode, string(GrantClient): GrantClient}, "grant")
	in.unknownKeys(f.value, f.path, fmt.Sprintf("%s %q", e.label, f.name), oauthMembers(), oauthForeign())
}

// redirect reads where the browser returns. A value meant for another host is no reason to
// refuse the file: whether we can use it turns out at a login.
func (e oauthKeys) redirect(in *entry, o *OAuth) {
	value, f, ok := in.text(oauthSpellings("redirectUri")...)
	if !ok || value == "" {
		return
	}
	if u, err := url.Parse(value); err != nil || u.Scheme == "" || u.Host == "" && u.Opaque == "" && u.Path == "" {
		e.warnAt(f.value.Offset, f.path, CodeURL, fmt.Sprintf("%s has invalid %q, which is ignored because it is not a URL", in.label, f.name), `write "http://localhost:PORT/callback"`)
		return
	}
	o.RedirectURI = value
}

// endpoint checks a URL that requests are sent to.
func (e oauthKeys) endpoint(in *entry, name string) {
	value, f, ok := in.text(name)
	if !ok {
		return
	}
	u, what, hint := checkURL(value)
	if what == "" && !strings.EqualFold(u.Scheme, "https") && !ipscope.Loopback(u.Hostname()) {
		what = "its scheme must be https"
	}
	if what != "" {
		in.invalidValue(f.value, f.path, CodeURL, fmt.Sprintf("invalid %q; %s", name, what), hint)
	}
}

// scopes reads a list of scopes, or a string of scopes separated by spaces.
func (e oauthKeys) scopes(in *entry, names ...string) []string {
	f, ok := in.find(names...)
	if !ok {
		return nil
	}
	var values []string
	switch f.value.Kind {
	case tree.String:
		if value, ok := in.expand(f.value, f.path, f.name); ok {
			values = strings.Fields(value)
		}
	case tree.List:
		values, _ = in.strings(f.name, func(i int) string {
			return fmt.Sprintf("%s has invalid %q at index %d; expected string", in.label, f.name, i)
		})
	default:
		in.invalid(f, "array of strings", `write ["…"]`)
	}
	return slices.Compact(values)
}

func oauthMembers() []string {
	return []string{"clientId", "clientSecret", "privateKeyFile", "clientMetadataUrl", "scopes", "callbackPort", "redirectUri", "grant", "authServerMetadataUrl"}
}

// oauthSpellings returns the spellings of a member: ours first, then those of other hosts.
func oauthSpellings(member string) []string {
	switch member {
	case "clientId":
		return []string{member, "client_id", "CLIENT_ID"}
	case "clientSecret":
		return []string{member, "client_secret", "CLIENT_SECRET"}
	case "scopes":
		return []string{member, "scope"}
	case "callbackPort":
		return []string{member, "callback_port"}
	case "redirectUri":
		return []string{member, "redirect_uri"}
	}
	return []string{member}
}

// oauthForeign returns the members that other hosts use: some are spellings of ours, the others
// have no effect here.
func oauthForeign() []string {
	foreign := []string{"enabled", "authorizationUrl", "tokenUrl", "audiences", "audience", "tokenParamName",
		"registrationUrl", "issuer", "resource", "type", "clientName", "xaa"}
	for _, member := range oauthMembers() {
		foreign = append(foreign, oauthSpellings(member)[1:]...)
	}
	return foreign
}
