package session

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// loginOf returns the source of tokens for a server; nil if its entry has credentials, or it is
// not reached over HTTP.
func loginOf(srv config.Server, logins *login.Store) *login.TokenSource {
	if logins == nil {
		return nil
	}
	for name := range srv.Headers {
		if strings.EqualFold(name, "Authorization") {
			return nil
		}
	}
	t := login.TargetOf(srv)
	if t.URL == "" {
		return nil
	}
	return logins.TokenSource(t)
}

// credentials adapts a source of tokens to package wire.
func credentials(from *login.TokenSource) *wire.Credentials {
	if from == nil {
		return nil
	}
	return &wire.Credentials{
		Header: func(ctx context.Context) (string, error) {
			header, err := from.Header(ctx)
			return header, authError(err, 0, login.Challenge{})
		},
		Refused: func(ctx context.Context, r wire.Refusal) (wire.Advice, error) {
			c := login.ParseChallenge(r.Challenge)
			again, err := from.Refused(ctx, r.Header, r.Status, c)
			if err != nil {
				if e, ok := errors.AsType[*wire.AuthError](authError(err, r.Status, c)); ok {
					return wire.Advice{Said: e.Said, Remedy: e.Remedy}, nil // shown together with the server's answer
				}
				return wire.Advice{}, err
			}
			return wire.Advice{Again: again, Said: c.Reason(), Remedy: remedy(from.Target(), r, c)}, nil
		},
	}
}

// authError converts a [*login.RequiredError] to an [*AuthError]; other errors are returned
// unchanged.
func authError(err error, status int, c login.Challenge) error {
	required, ok := errors.AsType[*login.RequiredError](err)
	if !ok {
		return err
	}
	return &wire.AuthError{Status: status, Said: c.Reason(), Remedy: required.Error()}
}

// remedy returns advice on what to do after a refusal.
func remedy(t login.Target, r wire.Refusal, c login.Challenge) string {
	const header = `an Authorization header in the server's "headers" in the config`
	switch {
	case c.Basic && c.Metadata == "":
		return "add " + header
	case r.Status == http.StatusForbidden && r.Header != "":
		return "the login is valid, but does not permit this request"
	case c.Metadata == "" && r.Header == "":
		return "run " + t.Command() + ", or add " + header
	}
	return "run " + t.Command()
}
