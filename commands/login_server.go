package commands

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// login logs in to one server. The row is nil if it needs no login.
func (o *loginOptions) login(ctx context.Context, env *Env, g *globals, logins *login.Store, srv config.Server) (*authRow, error) {
	target := login.TargetOf(srv)
	if o.metadataURL != "" {
		target.OAuth.ClientMetadataURL = o.metadataURL
	}
	challenge, needed, err := o.challenge(ctx, env, g, srv)
	if err != nil {
		return nil, err
	}
	if !needed && !logins.Offers(ctx, target) {
		fmt.Fprintf(env.Err, "%s needs no login\n", printable.Line(srv.ID, 128))
		return nil, nil
	}
	var l *login.Login
	if target.OAuth.Grant == config.GrantClient {
		l, err = logins.Obtain(ctx, target, challenge)
	} else {
		l, err = o.withBrowser(ctx, env, g, logins, target, challenge)
	}
	if err != nil {
		return nil, loginFailure(ctx, srv, err)
	}
	if l.NoKeyring != nil {
		fmt.Fprintf(env.Err, "the keyring is not available (%s); the token is stored in %s\n", printable.Line(l.NoKeyring.Error(), 200), logins.Path(target))
	}
	row := newAuthRow(srv, logins, l, nil)
	sessions := o.session(env, g)
	sessions.Logins, sessions.OneShot = logins, true
	if s, err := o.dial(env)(ctx, srv, sessions); err != nil {
		return nil, &failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("logged in, but cannot connect to server %q: %w", srv.ID, err)}
	} else if err := s.Close(); err != nil {
		return nil, err
	}
	return &row, nil
}

func (o *loginOptions) dial(env *Env) session.DialFunc {
	if env.Dial != nil {
		return env.Dial
	}
	return session.Dial
}

// challenge sends requests without a login, and returns the server's challenge. Some servers
// require a login only for a list.
func (o *loginOptions) challenge(ctx context.Context, env *Env, g *globals, srv config.Server) (login.Challenge, bool, error) {
	sessions := o.session(env, g)
	sessions.Logins = nil
	err := session.Probe(ctx, []config.Server{srv}, session.ProbeOptions{Dial: env.Dial, Session: sessions})[0].Err
	refused, ok := errors.AsType[*session.AuthError](err)
	switch {
	case ctx.Err() != nil:
		return login.Challenge{}, false, context.Cause(ctx)
	case err == nil:
		return login.Challenge{}, false, nil
	case !ok:
		return login.Challenge{}, false, &failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("server %q: %w", srv.ID, err)}
	}
	c := login.ParseChallenge(refused.Challenge)
	if c.Basic && c.Metadata == "" {
		return c, true, &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("server %q requires HTTP basic authentication, not OAuth", srv.ID),
			hint: `add an Authorization header to its "headers" in the config`}
	}
	return c, true, nil
}

func loginFailure(ctx context.Context, srv config.Server, err error) error {
	if _, ours := errors.AsType[*failure](err); ours || ctx.Err() != nil {
		return err
	}
	f := &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("server %q: %w", srv.ID, err)}
	if errors.Is(err, login.ErrNoClient) {
		f.hint = `register a client there with the redirect URI http://localhost:8123/callback, and set "oauth": {"clientId": "…", "callbackPort": 8123} in the config`
	}
	if unnamed, ok := errors.AsType[*login.UnnamedError](err); ok && unnamed.Metadata != "" {
		f.hint = fmt.Sprintf(`if it does, set "oauth": {"authServerMetadataUrl": "%s"} in the config`, unnamed.Metadata)
	}
	return f
}

// withBrowser lets the user log in with a browser.
func (o *loginOptions) withBrowser(ctx context.Context, env *Env, g *globals, logins *login.Store, target login.Target, challenge login.Challenge) (*login.Login, error) {
	redirect, callback, err := o.listen(ctx, logins, target)
	if err != nil {
		return nil, err
	}
	if callback != nil {
		defer callback.Close()
	}
	if target.OAuth.ClientID != "" { // else the browser shows an error that nobody understands
		fmt.Fprintf(env.Err, "the client %s must be registered with the redirect URI %s\n", printable.Line(target.OAuth.ClientID, 100), printable.Line(redirect, 200))
	}
	flow, err := logins.Begin(ctx, target, challenge, redirect, o.scopes)
	if errors.Is(err, login.ErrNoClient) && env.ErrTTY && !o.noBrowser {
		if target.OAuth.ClientID, err = askClient(env, redirect); err == nil {
			flow, err = logins.Begin(ctx, target, challenge, redirect, o.scopes)
		}
	}
	if err != nil {
		return nil, err
	}
	var got *login.Login
	var failed error
	var once sync.Once // the answer may be pasted, and come from the browser, too
	finish := func(ctx context.Context, answer url.Values) error {
		once.Do(func() { got, failed = flow.Finish(ctx, answer) })
		return failed
	}
	if o.noBrowser {
		err = o.paste(ctx, env, callback, flow, finish)
	} else {
		o.open(env, flow)
		beside, _, stop := g.waiting(env, "waiting for the login in the browser")
		err = callback.Serve(ctx, flow, finish, func(reason string) {
			g.logger(beside).Warn("refused a request to the login callback", "reason", reason)
		})
		stop()
	}
	if err == nil {
		return got, nil
	}
	if err := flow.Abandon(context.WithoutCancel(ctx)); err != nil {
		g.logger(env).Info("cannot delete the client registration; the next login reuses it", "server", target.ID, "err", err)
	}
	return nil, err
}
