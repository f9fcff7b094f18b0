package login

import (
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
)

const (
	// maxScope bounds one scope that a server names, in bytes.
	maxScope = 256
	// maxScopes bounds all of a login, in bytes: they have to fit into a URL. Without it, a
	// server that refuses every request for yet another scope would make logins impossible.
	maxScopes = 8 << 10
)

// usableScopes returns the scopes that a server named, without those that are invalid (RFC
// 6749, section 3.3) or too long.
func usableScopes(named []string) []string {
	var scopes []string
	size := 0
	for _, scope := range named {
		ok := scope != "" && len(scope) <= maxScope && visible(scope) && !strings.ContainsAny(scope, `"\`)
		if size += len(scope) + 1; ok && size <= maxScopes && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		} else {
			size -= len(scope) + 1
		}
	}
	return scopes
}

// chooseScopes returns the scopes to ask for, in the order of the specification. Scopes that an
// earlier request lacked are added, and the scope for refresh tokens if the server supports it.
func chooseScopes(t Target, c Challenge, at *place, earlier *Login, scopes []string) []string {
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
		// Scopes refused last come first, in case not all of them fit.
		for _, scope := range usableScopes(slices.Concat(scopes, earlier.Lacking, earlier.Scopes)) {
			add(scope)
		}
	}
	if slices.Contains(at.server.ScopesSupported, offlineAccess) && t.OAuth.Grant != config.GrantClient {
		add(offlineAccess)
	}
	return scopes
}
