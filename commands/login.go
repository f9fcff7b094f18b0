package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/document"
)

type loginOptions struct {
	connectFlags
	server      string
	all         bool
	noBrowser   bool
	port        int
	tokenStore  string
	scopes      []string
	metadataURL string
}

// loginTime is how long a login may take by default: a person has to type a password.
const loginTime = 10 * time.Minute

func newLogin(env *Env, g *globals) *cobra.Command {
	var opts loginOptions
	cmd := &cobra.Command{
		Use:         "login SERVER",
		Short:       "Log in to a server that wants OAuth",
		Annotations: manualPage("login"),
		Example: `  mcptrack login notion
  mcptrack login --all
  mcptrack login notion --no-browser    # over SSH: open the URL elsewhere
  mcptrack login notion --port 8123 --scope read --scope write`,
		Args:              arguments(0, 1),
		ValidArgsFunction: completeLogins(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := opts.parse(args); err != nil {
				return err
			}
			ctx, cancel := opts.bound(cmd.Context())
			defer cancel()
			cmd.SetContext(ctx)
			return runLogin(ctx, env, g, opts)
		},
	}
	opts.connectFlags.add(cmd)
	f := cmd.Flags()
	timeout := f.Lookup("timeout")
	timeout.Usage, timeout.DefValue, opts.timeout = "`DURATION` that the whole command may take", loginTime.String(), loginTime
	f.BoolVar(&opts.all, "all", false, "log in to every server of the config that needs it")
	f.BoolVar(&opts.noBrowser, "no-browser", false, "print the URL to open as the only line on stdout, and read the URL that it leads to from stdin")
	f.IntVar(&opts.port, "port", 0, "`PORT` of 127.0.0.1 that the browser comes back to (default any)")
	f.StringVar(&opts.tokenStore, "token-store", "", "`PLACE` of the token: keyring, file or memory (default the keyring where it answers, else a file)")
	f.StringArrayVar(&opts.scopes, "scope", nil, "`SCOPE` to ask for, in place of what the server wants (repeatable)")
	f.StringVar(&opts.metadataURL, "client-metadata-url", "", "`URL` of a client ID metadata document to log in as")
	_ = cmd.RegisterFlagCompletionFunc("token-store", cobra.FixedCompletions(tokenStores(), cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"port", "scope", "client-metadata-url"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

func (o *loginOptions) parse(args []string) error {
	switch {
	case o.all && len(args) > 0:
		return usage("--all and a server exclude each other")
	case !o.all && len(args) == 0:
		return usageHint("mcptrack auth lists them", "specify a server or --all")
	case o.all && o.noBrowser:
		return usage("--all and --no-browser exclude each other")
	case o.port < 0 || o.port > 65535:
		return usage("invalid --port %d; expected 1 to 65535", o.port)
	}
	if u, err := url.Parse(o.metadataURL); o.metadataURL != "" && (err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") == "") {
		return usage("invalid --client-metadata-url; expected https://HOST/PATH")
	}
	if len(args) > 0 {
		o.server = args[0]
	}
	return o.connectFlags.parse()
}

func runLogin(ctx context.Context, env *Env, g *globals, opts loginOptions) error {
	log := g.logger(env)
	logins, err := env.ownLogins(opts.tokenStore, log)
	if err != nil {
		return err
	}
	cfg, err := g.load(env, log)
	if err != nil {
		return err
	}
	var ids []string
	if !opts.all {
		ids = []string{opts.server}
	}
	servers, err := loginServers(cfg, ids)
	if err != nil {
		return err
	}
	if opts.all {
		return opts.loginAll(ctx, env, g, logins, servers)
	}
	done, err := opts.login(ctx, env, g, logins, servers[0])
	if err != nil || done == nil {
		return err
	}
	return opts.report(env, g, []authRow{*done})
}

// loginAll logs in to every server that needs it, one after the other.
func (o *loginOptions) loginAll(ctx context.Context, env *Env, g *globals, logins *login.Store, servers []config.Server) error {
	sessions := o.session(env, g)
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
		return &failure{exit: exitUnreachable, code: "unreachable", reported: true, err: errors.New(strings.Join(failed, "; "))}
	}
	return nil
}

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
		fmt.Fprintf(env.Err, "the keyring cannot be used (%s); the token is kept in %s\n", printable.Line(l.NoKeyring.Error(), 200), logins.Path(target))
	}
	row := newAuthRow(srv, logins, l, nil)
	sessions := o.session(env, g)
	sessions.Logins, sessions.OneShot = logins, true
	if s, err := o.dial(env)(ctx, srv, sessions); err != nil {
		return nil, &failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("logged in, but server %q does not accept it: %w", srv.ID, err)}
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

// challenge asks the server for what it offers, without a login, and returns what it says
// to that. Some servers want none until they are asked for a list.
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
		return c, true, &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("server %q wants a password, not OAuth", srv.ID),
			hint: `put an Authorization header into its "headers"`}
	}
	return c, true, nil
}

func loginFailure(ctx context.Context, srv config.Server, err error) error {
	if _, ours := errors.AsType[*failure](err); ours || ctx.Err() != nil {
		return err
	}
	f := &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("server %q: %w", srv.ID, err)}
	if errors.Is(err, login.ErrNoClient) {
		f.hint = `register a client there and set "oauth": {"clientId": "…"} in the config`
	}
	return f
}

// withBrowser lets the user log in with a browser.
func (o *loginOptions) withBrowser(ctx context.Context, env *Env, g *globals, logins *login.Store, target login.Target, challenge login.Challenge) (*login.Login, error) {
	callback, err := o.listen(ctx, logins, target)
	if err != nil {
		return nil, &failure{exit: exitFailed, code: "failed", err: err, hint: "choose another with --port"}
	}
	defer callback.Close()
	flow, err := logins.Begin(ctx, target, challenge, callback.Redirect, o.scopes)
	if errors.Is(err, login.ErrNoClient) && env.ErrTTY && !o.noBrowser {
		if target.OAuth.ClientID, err = askClient(env, callback.Redirect); err == nil {
			flow, err = logins.Begin(ctx, target, challenge, callback.Redirect, o.scopes)
		}
	}
	if err != nil {
		return nil, err
	}
	var got *login.Login
	finish := func(ctx context.Context, answer url.Values) (err error) {
		got, err = flow.Finish(ctx, answer)
		return err
	}
	if o.noBrowser {
		err = o.paste(ctx, env, callback, flow, finish)
		return got, err
	}
	o.open(env, flow)
	_, stop := g.waiting(env, "waiting for the login in the browser")
	defer stop()
	err = callback.Serve(ctx, flow, finish, func(reason string) { g.logger(env).Warn("a request to the login was refused", "reason", reason) })
	return got, err
}

// listen opens the port that the browser comes back to: the one that the client was
// registered with, if it is free and no other is wanted.
func (o *loginOptions) listen(ctx context.Context, logins *login.Store, target login.Target) (*login.Callback, error) {
	if o.port != 0 {
		return login.Listen(ctx, o.port)
	}
	if target.OAuth.CallbackPort != 0 {
		return login.Listen(ctx, target.OAuth.CallbackPort)
	}
	if earlier, err := logins.Get(target); err == nil {
		if port := login.Port(earlier.Client.Redirect); port != 0 {
			if c, err := login.Listen(ctx, port); err == nil {
				return c, nil
			}
		}
	}
	return login.Listen(ctx, 0)
}

// open opens the browser, and says where to go in case that it does not open.
func (o *loginOptions) open(env *Env, flow *login.Flow) {
	if env.OpenBrowser != nil {
		if err := env.OpenBrowser(flow.URL); err == nil {
			fmt.Fprintf(env.Err, "log in to %s in your browser; if it does not open, go to\n%s\n", flow.Issuer(), printable.Line(flow.URL, 0))
			return
		}
	}
	fmt.Fprintf(env.Err, "to log in to %s, go to\n%s\n", flow.Issuer(), printable.Line(flow.URL, 0))
}

// askClient asks for the ID of a client.
func askClient(env *Env, redirect string) (string, error) {
	fmt.Fprintf(env.Err, "The authorization server registers no clients by itself. Register one there, with the\nredirect URI %s, and enter its client ID: ", redirect)
	id, err := readLine(env.In)
	if err != nil || id == "" {
		return "", login.ErrNoClient
	}
	return id, nil
}

// paste prints the URL and finishes with the redirected URL that comes on stdin, or with
// the browser if that is on this machine.
func (o *loginOptions) paste(ctx context.Context, env *Env, callback *login.Callback, flow *login.Flow, finish func(context.Context, url.Values) error) error {
	if _, err := fmt.Fprintln(env.Out, flow.URL); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pasted := make(chan error, 1) // sent to once; never closed
	go func() {                   // reading cannot be interrupted: it ends with stdin, or with the process
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
	err := callback.Serve(ctx, flow, finish, nil)
	if errors.Is(err, errPasted) {
		return <-pasted
	}
	return err
}

var errPasted = errors.New("the redirected URL was pasted")

// redirected returns the query of a redirected URL.
func redirected(line string) (url.Values, error) {
	u, err := url.Parse(strings.TrimSpace(line))
	if err != nil || u.RawQuery == "" {
		return nil, usageHint("paste the address that the browser shows at the end, even if it shows an error", "the line on stdin is not the URL that the browser was redirected to")
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
		return "", usage("stdin has no line with the redirected URL")
	}
	return "", err
}

// report says what came of the logins: on stdout, or on stderr where stdout is for the URL.
func (o *loginOptions) report(env *Env, g *globals, rows []authRow) error {
	if !g.format.Table() && !o.noBrowser {
		if o.all {
			return document.Write(env.Out, g.format, rows)
		}
		return document.Write(env.Out, g.format, rows[0])
	}
	for _, r := range rows {
		line := fmt.Sprintf("logged in to %s at %s", printable.Line(r.ID, 128), printable.Line(r.Issuer, 200))
		if len(r.Scopes) > 0 {
			line += " for " + join(r.Scopes, 10)
		}
		fmt.Fprintln(env.Err, printable.Line(line, 1000))
	}
	return nil
}

// stamp returns a time as in every output, "" for the zero one.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(event.TimeFormat)
}
