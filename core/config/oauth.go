package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// OAuth says how to log in to a server. The zero value finds out everything from the
// server.
type OAuth struct {
	ClientID          string
	ClientSecret      Secret
	PrivateKeyFile    string // absolute; a PEM key that the client proves itself with
	ClientMetadataURL string // the client ID of a client that describes itself there
	Scopes            []string
	CallbackPort      int // 0: any
	Grant             Grant
	// AuthServerMetadataURL is where the metadata of the authorization server is, for
	// servers that do not say it.
	AuthServerMetadataURL string
}

// Grant is how a token is obtained.
type Grant string

// The choices of "grant". The empty one is GrantCode.
const (
	GrantCode   Grant = "authorization_code" // a user logs in with a browser
	GrantClient Grant = "client_credentials" // the client stands for itself
)

// oauthKeys reads how to log in, in our words and in those of other hosts.
type oauthKeys struct{ *entry }

// oauth reads the keys "oauth", "auth" (Cursor) and "scopes" (Codex). Other hosts also
// write words and booleans there, which say nothing to us.
func (e oauthKeys) oauth(s *Server) {
	f, ok := e.field("oauth")
	if ok && f.value.Kind != tree.Object && f.value.Kind != tree.Bool {
		e.invalid(f, "object", `write {"clientId": "…"}, or nothing at all`)
	}
	if s.Transport == TransportStdio { // it is checked all the same
		if ok && f.value.Kind == tree.Object {
			e.object(f, &Server{ID: s.ID, Enabled: s.Enabled})
		}
		return
	}
	if f, ok := e.field("auth"); ok && f.value.Kind == tree.Object {
		e.object(f, s)
	}
	if ok && f.value.Kind == tree.Object {
		e.object(f, s)
	}
	if f, ok := e.field("scopes"); ok && len(s.OAuth.Scopes) == 0 && f.value.Kind == tree.List {
		s.OAuth.Scopes = e.scopes(e.entry, "scopes")
	}
}

// object reads the members of one of them.
func (e oauthKeys) object(f field, s *Server) {
	in := e.reader.entry(f.value, f.path, e.label)
	in.server = s
	o := &s.OAuth
	for _, m := range []struct {
		into  *string
		names []string
	}{
		{&o.ClientID, []string{"clientId", "client_id", "CLIENT_ID"}},
		{&o.PrivateKeyFile, []string{"privateKeyFile"}},
		{&o.ClientMetadataURL, []string{"clientMetadataUrl"}},
		{&o.AuthServerMetadataURL, []string{"authServerMetadataUrl"}},
	} {
		if value, _, ok := in.text(m.names...); ok {
			*m.into = value
		}
	}
	secrets := []string{"clientSecret", "client_secret", "CLIENT_SECRET"}
	if value, at, ok := in.text(secrets...); ok {
		in.plaintext("clientSecret", at.value, at.path, quote(at.name))
		o.ClientSecret = NewSecret(value)
	}
	for _, name := range []string{"clientMetadataUrl", "authServerMetadataUrl"} {
		e.endpoint(in, name)
	}
	if o.PrivateKeyFile != "" && !filepath.IsAbs(o.PrivateKeyFile) {
		o.PrivateKeyFile = filepath.Join(e.expander.workspace, o.PrivateKeyFile)
	}
	if scopes := e.scopes(in, "scopes", "scope"); len(scopes) > 0 {
		o.Scopes = scopes
	}
	if at, ok := in.find("callbackPort", "callback_port"); ok {
		if port, err := strconv.ParseUint(at.value.Text, 10, 16); at.value.Kind != tree.Number || err != nil || port == 0 {
			in.invalid(at, "port from 1 to 65535", "")
		} else {
			o.CallbackPort = int(port)
		}
	}
	o.Grant, _, _ = choice(in, o.Grant, map[string]Grant{string(GrantCode): GrantCode, string(GrantClient): GrantClient}, "grant")
	in.unknownKeys(f.value, f.path, fmt.Sprintf("%s %q", e.label, f.name), oauthMembers(), oauthForeign())
}

// endpoint checks a URL that requests are sent to.
func (e oauthKeys) endpoint(in *entry, name string) {
	value, f, ok := in.text(name)
	if !ok {
		return
	}
	u, what, hint := checkURL(value)
	if what == "" && !strings.EqualFold(u.Scheme, "https") && !loopback(u.Hostname()) {
		what = "its scheme must be https"
	}
	if what != "" {
		in.invalidValue(f.value, f.path, CodeURL, fmt.Sprintf("invalid %q; %s", name, what), hint)
	}
}

// scopes reads a list of scopes, or a string with spaces between them.
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
	return []string{"clientId", "clientSecret", "privateKeyFile", "clientMetadataUrl", "scopes", "callbackPort", "grant", "authServerMetadataUrl"}
}

// oauthForeign are the members of other hosts: some are read as ours, and the others
// change nothing that we do.
func oauthForeign() []string {
	return []string{"client_id", "client_secret", "CLIENT_ID", "CLIENT_SECRET", "callback_port", "scope",
		"enabled", "authorizationUrl", "tokenUrl", "audiences", "audience", "redirectUri", "redirect_uri", "tokenParamName",
		"registrationUrl", "issuer", "resource", "type", "clientName", "xaa"}
}
