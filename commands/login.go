package commands

import (
	"context"
	"errors"
	"fmt"
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
		Short:       "Log in to a server that requires OAuth",
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
			chosen := loginsOptions{servers: args, timeout: opts.timeout, tokenStore: opts.tokenStore, sends: true, choose: loginServers}
			return withLogins(cmd, env, g, chosen, func(ctx context.Context, logins *login.Store, servers []config.Server) error {
				return runLogin(ctx, env, g, opts, logins, servers)
			})
		},
	}
	opts.connectFlags.add(cmd)
	f := cmd.Flags()
	timeout := f.Lookup("timeout")
	timeout.Usage, timeout.DefValue, opts.timeout = "`DURATION` that the whole command may take", loginTime.String(), loginTime
	f.BoolVar(&opts.all, "all", false, "log in to every server of the config that needs it")
	f.BoolVar(&opts.noBrowser, "no-browser", false, "print the URL to open as the only line on stdout, and read the URL that the browser is redirected to from stdin")
	f.IntVar(&opts.port, "port", 0, "`PORT` on 127.0.0.1 that the browser is redirected to (default any)")
	f.StringVar(&opts.tokenStore, "token-store", "", "`PLACE` where the token is stored: keyring, file or memory (default: the keyring if it is available, else a file)")
	f.StringArrayVar(&opts.scopes, "scope", nil, "`SCOPE` to request, instead of those that the server requires (repeatable)")
	f.StringVar(&opts.metadataURL, "client-metadata-url", "", "`URL` of a client ID metadata document to log in as")
	_ = cmd.RegisterFlagCompletionFunc("token-store", cobra.FixedCompletions(tokenStores(), cobra.ShellCompDirectiveNoFileComp))
	for _, name := range []string{"port", "scope", "client-metadata-url"} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
	return cmd
}

func (o *loginOptions) parse(args []string) error {
	if err := oneOrAll(args, o.all); err != nil {
		return err
	}
	switch {
	case o.all && o.noBrowser:
		return usage("--all and --no-browser cannot be used together")
	case o.port < 0 || o.port > 65535:
		return usage("invalid --port %d; expected 1 to 65535", o.port)
	}
	if u, err := url.Parse(o.metadataURL); o.metadataURL != "" && (err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") == "") {
		return usage("invalid --client-metadata-url; expected https://HOST/PATH")
	}
	return o.connectFlags.parse()
}

func runLogin(ctx context.Context, env *Env, g *globals, opts loginOptions, logins *login.Store, servers []config.Server) error {
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
