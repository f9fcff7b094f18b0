// Package login implements the command login (login.go), with --list and --out (auth.go). logins.go
// selects the servers and opens the login store for all three. The OAuth flows and the store are in
// core/login.
package login

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// Manual contains the help pages of this package, as Markdown.
//
//go:embed *.md
var Manual embed.FS

type loginOptions struct {
	cli.ConnectFlags
	list, out  bool
	renew      bool
	all        bool
	noBrowser  bool
	port       int
	tokenStore string
}

// loginTime is the default time limit for a login. It allows for a user who has to type a password.
const loginTime = 10 * time.Minute

// Command returns the login command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts loginOptions
	cmd := &cobra.Command{
		Use:         "login SERVER | --list [SERVER...] | --out SERVER",
		Short:       "Log in to a server that requires OAuth, list the logins, log out",
		Annotations: cli.ManualPage("login"),
		Example: `  mcptrack login notion
  mcptrack login --list
  mcptrack login --out notion
  mcptrack login notion --no-browser    # over SSH: open the URL elsewhere
  mcptrack login --all`,
		ValidArgsFunction: completeLogins(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.parse(args); err != nil {
				return err
			}
			switch {
			case opts.list:
				return listLogins(cmd, env, g, args, opts.renew, opts.Timeout)
			case opts.out:
				return logout(cmd, env, g, args, opts.all, opts.Timeout)
			}
			if g.Demo() && len(args) == 1 && args[0] == "demo" {
				return cli.UsageHint("mcptrack list --demo shows what it offers", "the demo server needs no login")
			}
			chosen := sharedOptions{servers: args, timeout: opts.Timeout, tokenStore: opts.tokenStore, sends: true, choose: loginServers}
			return withLogins(cmd, env, g, chosen, func(ctx context.Context, logins *login.Store, servers []config.Server) error {
				return runLogin(ctx, env, g, opts, logins, servers)
			})
		},
	}
	opts.ConnectFlags.Add(cmd)
	f := cmd.Flags()
	g.AddDemo(cmd)
	timeout := f.Lookup("timeout")
	timeout.Usage, timeout.DefValue, opts.Timeout = "`DURATION` that the whole command may take", loginTime.String(), loginTime
	f.BoolVar(&opts.list, "list", false, "list the logins")
	f.BoolVar(&opts.renew, "renew", false, "renew the tokens now")
	f.BoolVar(&opts.out, "out", false, "log out")
	f.BoolVar(&opts.all, "all", false, "log in to all servers that need it, or with --out log out of all")
	f.BoolVar(&opts.noBrowser, "no-browser", false, "print the URL to open, and ask for the redirected URL")
	f.IntVar(&opts.port, "port", 0, "`PORT` to which the browser is redirected (default any)")
	cli.AddChoice(cmd, &opts.tokenStore, "token-store", "", "`PLACE` of the token: keyring, file or memory", cli.TokenStores()...)
	cli.MainFlags(cmd, "list", "out", "all", "no-browser", "json")
	return cmd
}

func (o *loginOptions) parse(args []string) error {
	switch {
	case o.list && (o.out || o.all):
		return cli.Usage("--list cannot be used with --out or --all")
	case o.renew && !o.list:
		return cli.Usage("--renew needs --list")
	case o.list || o.out:
		return o.ConnectFlags.Parse()
	}
	if err := oneOrAll(args, o.all); err != nil {
		return err
	}
	switch {
	case o.all && o.noBrowser:
		return cli.Usage("--all and --no-browser cannot be used together")
	case o.port < 0 || o.port > 65535:
		return cli.Usage("invalid --port %d; expected 1 to 65535", o.port)
	}
	return o.ConnectFlags.Parse()
}

func runLogin(ctx context.Context, env *cli.Env, g *cli.Globals, opts loginOptions, logins *login.Store, servers []config.Server) error {
	if opts.all {
		return opts.loginAll(ctx, env, g, logins, servers)
	}
	done, err := opts.login(ctx, env, g, logins, servers[0])
	if err != nil || done == nil {
		return err
	}
	return opts.report(env, g, []authRow{*done})
}

// loginAll logs in to every server that needs it, one at a time.
func (o *loginOptions) loginAll(ctx context.Context, env *cli.Env, g *cli.Globals, logins *login.Store, servers []config.Server) error {
	sessions := o.SessionOptions(env, g)
	sessions.Logins = logins
	var need []session.Report
	for _, r := range session.Probe(ctx, servers, session.ProbeOptions{Dial: env.Dial, Session: sessions}) {
		if errors.Is(r.Err, session.ErrAuth) && !ownHeader(r.Server) {
			need = append(need, r)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(need) == 0 {
		fmt.Fprintln(env.Err, "no server needs a login")
	}
	rows := []authRow{}
	var failed []string
	for _, r := range need {
		row, err := o.login(ctx, env, g, logins, r.Server)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			failed = append(failed, fmt.Sprintf("%s: %v", r.Server.ID, err))
			fmt.Fprintf(env.Err, "%s: %s\n", printable.Line(r.Server.ID, 128), printable.Line(err.Error(), 1000))
		case row != nil:
			rows = append(rows, *row)
		}
	}
	if err := o.report(env, g, rows); err != nil {
		return err
	}
	if len(failed) > 0 {
		return &cli.Failure{Exit: cli.ExitUnreachable, Code: "unreachable", Reported: true, Err: errors.New(strings.Join(failed, "; "))}
	}
	return nil
}

// report prints the successful logins to stdout, or to stderr if stdout is reserved for the URL.
func (o *loginOptions) report(env *cli.Env, g *cli.Globals, rows []authRow) error {
	if !g.Format.Table() && !o.noBrowser {
		return writeRows(env, g, o.all, rows, func(r authRow) string { return r.ID })
	}
	for _, r := range rows {
		line := fmt.Sprintf("logged in to %s at %s", printable.Line(r.ID, 128), printable.Line(r.Issuer, 200))
		if len(r.Scopes) > 0 {
			line += " for " + cli.Join(r.Scopes, 10)
		}
		fmt.Fprintln(env.Err, printable.Line(line, 1000))
	}
	return nil
}

// login logs in to one server. The returned row is nil if the server needs no login.
func (o *loginOptions) login(ctx context.Context, env *cli.Env, g *cli.Globals, logins *login.Store, srv config.Server) (*authRow, error) {
	target := login.TargetOf(srv)
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
	sessions := o.SessionOptions(env, g)
	sessions.Logins, sessions.OneShot = logins, true
	if s, err := env.Dialer()(ctx, srv, sessions); err != nil {
		return nil, cli.Unreachable("", "logged in to %s, but not connected: %w", printable.Line(srv.ID, 128), err)
	} else if err := s.Close(); err != nil {
		return nil, err
	}
	return &row, nil
}

// challenge sends requests without a login, and returns the server's authentication challenge. It
// also requests lists, because some servers require a login only for those.
func (o *loginOptions) challenge(ctx context.Context, env *cli.Env, g *cli.Globals, srv config.Server) (login.Challenge, bool, error) {
	sessions := o.SessionOptions(env, g)
	sessions.Logins = nil
	err := session.Probe(ctx, []config.Server{srv}, session.ProbeOptions{Dial: env.Dial, Session: sessions})[0].Err
	refused, ok := errors.AsType[*session.AuthError](err)
	switch {
	case ctx.Err() != nil:
		return login.Challenge{}, false, context.Cause(ctx)
	case err == nil:
		return login.Challenge{}, false, nil
	case !ok:
		return login.Challenge{}, false, cli.Unreachable("", "%s: %w", printable.Line(srv.ID, 128), err)
	}
	c := login.ParseChallenge(refused.Challenge)
	if c.Basic && c.Metadata == "" {
		return c, true, &cli.Failure{Exit: cli.ExitRefused, Code: "refused", Err: fmt.Errorf("server %q requires HTTP basic authentication, not OAuth", srv.ID),
			Hint: `add an Authorization header to its "headers" in the config`}
	}
	return c, true, nil
}

func loginFailure(ctx context.Context, srv config.Server, err error) error {
	if _, ours := errors.AsType[*cli.Failure](err); ours || ctx.Err() != nil {
		return err
	}
	f := &cli.Failure{Exit: cli.ExitRefused, Code: "refused", Err: fmt.Errorf("%s: %w", printable.Line(srv.ID, 128), err)}
	if errors.Is(err, login.ErrNoClient) {
		f.Hint = `register a client there with the redirect URI http://localhost:8123/callback, and set "oauth": {"clientId": "…", "callbackPort": 8123} in the config`
	}
	if unnamed, ok := errors.AsType[*login.UnnamedError](err); ok && unnamed.Metadata != "" {
		f.Hint = fmt.Sprintf(`if it does, set "oauth": {"authServerMetadataUrl": "%s"} in the config`, unnamed.Metadata)
	}
	return f
}

// withBrowser lets the user log in with a browser.
func (o *loginOptions) withBrowser(ctx context.Context, env *cli.Env, g *cli.Globals, logins *login.Store, target login.Target, challenge login.Challenge) (*login.Login, error) {
	redirect, callback, err := o.listen(ctx, logins, target)
	if err != nil {
		return nil, err
	}
	if callback != nil {
		defer callback.Close()
	}
	if target.OAuth.ClientID != "" { // otherwise the browser may show an obscure error
		fmt.Fprintf(env.Err, "the client %s must be registered with the redirect URI %s\n", printable.Line(target.OAuth.ClientID, 100), printable.Line(redirect, 200))
	}
	flow, err := logins.Begin(ctx, target, challenge, redirect)
	if err != nil {
		return nil, err
	}
	var got *login.Login
	var failed error
	var once sync.Once // the redirect may arrive on stdin and from the browser
	finish := func(ctx context.Context, answer url.Values) error {
		once.Do(func() { got, failed = flow.Finish(ctx, answer) })
		return failed
	}
	if o.noBrowser {
		err = o.paste(ctx, env, callback, flow, finish)
	} else {
		o.open(env, flow)
		beside, _, stop := g.Waiting(env, "waiting for the login in the browser")
		err = callback.Serve(ctx, flow, finish, func(reason string) {
			g.Logger(beside).Warn("rejected a request to the login callback", "reason", reason)
		})
		stop()
	}
	if err == nil {
		return got, nil
	}
	if err := flow.Abandon(context.WithoutCancel(ctx)); err != nil {
		g.Logger(env).Info("cannot delete the client registration; the next login reuses it", "server", target.ID, "err", err)
	}
	return nil, err
}

// listen returns the redirect URI for a login, and opens its port. It prefers the port with which
// the client was registered, if that port is free and no other is requested. With --no-browser, the
// URI may belong to another machine; c is then nil.
func (o *loginOptions) listen(ctx context.Context, logins *login.Store, target login.Target) (redirect string, c *login.Callback, err error) {
	redirect = target.Redirect(o.port)
	if redirect == (login.Target{}).Redirect(0) { // any port may be used
		if earlier, err := logins.Get(target); err == nil && earlier.Client.Redirect != "" {
			if c, err := login.Listen(ctx, earlier.Client.Redirect); err == nil {
				return c.Redirect, c, nil
			}
		}
	}
	c, err = login.Listen(ctx, redirect)
	switch {
	case err == nil:
		return c.Redirect, c, nil
	case errors.Is(err, login.ErrElsewhere) && o.noBrowser:
		return redirect, nil, nil
	case errors.Is(err, login.ErrElsewhere):
		err = &cli.Failure{Exit: cli.ExitFailed, Code: "failed", Err: err,
			Hint: "also register http://localhost:8123/callback for the client, and select it with --port 8123; or paste the redirected URL with --no-browser"}
	default:
		err = &cli.Failure{Exit: cli.ExitFailed, Code: "failed", Err: err, Hint: "choose another port with --port"}
	}
	return "", nil, err
}

// open opens the authorization URL in the browser, and prints it in case the browser does not open.
func (o *loginOptions) open(env *cli.Env, flow *login.Flow) {
	if env.OpenBrowser != nil {
		if err := env.OpenBrowser(flow.URL); err == nil {
			fmt.Fprintf(env.Err, "log in to %s in your browser; if it does not open, go to\n%s\n", flow.Issuer(), printable.Line(flow.URL, 0))
			return
		}
	}
	fmt.Fprintf(env.Err, "to log in to %s, go to\n%s\n", flow.Issuer(), printable.Line(flow.URL, 0))
}

// paste prints the authorization URL, and completes the login with the redirected URL from stdin
// or, if there is a callback, from the browser.
func (o *loginOptions) paste(ctx context.Context, env *cli.Env, callback *login.Callback, flow *login.Flow, finish func(context.Context, url.Values) error) error {
	if _, err := fmt.Fprintln(env.Out, flow.URL); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pasted := make(chan error, 1) // receives one value; never closed
	go func() {                   // may remain until the process exits: a read cannot be interrupted
		line, err := readLine(env.In)
		if err == nil {
			var answer url.Values
			if answer, err = redirected(line); err == nil {
				err = finish(ctx, answer)
			}
		}
		pasted <- err
		cancel(errPasted)
	}()
	var err error
	if callback != nil {
		err = callback.Serve(ctx, flow, finish, nil)
	} else {
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	if errors.Is(err, errPasted) {
		return <-pasted
	}
	return err
}

var errPasted = errors.New("the redirected URL was pasted")

// redirected returns the query of the redirected URL in line.
func redirected(line string) (url.Values, error) {
	u, err := url.Parse(strings.TrimSpace(line))
	if err != nil || u.RawQuery == "" {
		return nil, cli.UsageHint("paste the URL in the address bar after you have logged in, even if the page shows an error", "the line on stdin is not the URL that the browser was redirected to")
	}
	return u.Query(), nil
}

// readLine reads one line of at most 64 KiB.
func readLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, 64<<10)).ReadString('\n')
	if line = strings.TrimSpace(line); line != "" {
		return line, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return "", cli.Usage("stdin has no line with the redirected URL")
	}
	return "", err
}
