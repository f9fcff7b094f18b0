package login

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/table"
)

// AuthCommand returns the command auth, the older name of login --list.
func AuthCommand(env *cli.Env, g *cli.Globals) *cobra.Command {
	var renew bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "auth [SERVER...]", Short: "The same as login --list",
		ValidArgsFunction: completeLogins(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			return listLogins(cmd, env, g, args, renew, timeout)
		},
	}
	g.AddDemo(cmd)
	cmd.Flags().BoolVar(&renew, "renew", false, "renew the tokens now")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "exit after this `DURATION`")
	return cmd
}

func listLogins(cmd *cobra.Command, env *cli.Env, g *cli.Globals, servers []string, renew bool, timeout time.Duration) error {
	chosen := sharedOptions{servers: servers, timeout: timeout, sends: renew, choose: authServers}
	if renew {
		chosen.choose = loginServers // excludes disabled servers, which nobody has approved
	}
	return withLogins(cmd, env, g, chosen, func(ctx context.Context, logins *login.Store, servers []config.Server) error {
		return showLogins(ctx, env, g, renew, logins, servers)
	})
}

// authRow is an element of the array that login --list --json prints.
type authRow struct {
	ID         string     `json:"id"`
	URL        string     `json:"url"`
	State      string     `json:"state"` // one of loggedIn, expired, refused, none, header and failed
	Issuer     string     `json:"issuer,omitempty"`
	ClientID   string     `json:"clientId,omitempty"`
	Grant      string     `json:"grant,omitempty"`
	Scopes     []string   `json:"scopes,omitempty"`
	Lacking    []string   `json:"lacking,omitempty"`
	Store      login.Kind `json:"store,omitempty"`
	File       string     `json:"file,omitempty"`
	LoggedInAt string     `json:"loggedInAt,omitempty"`
	ExpiresAt  string     `json:"expiresAt,omitempty"`
	Renewable  bool       `json:"renewable"`
	Error      string     `json:"error,omitempty"`
}

func newAuthRow(srv config.Server, logins *login.Store, l *login.Login, err error) authRow {
	row := authRow{ID: srv.ID, URL: srv.Endpoint(), State: "none"}
	switch {
	case ownHeader(srv):
		row.State = "header"
		return row
	case errors.Is(err, login.ErrNone):
		return row
	case err != nil && l == nil:
		row.State, row.Error = "failed", printable.Line(err.Error(), 1000)
		return row
	}
	row.State = "loggedIn"
	row.Issuer, row.ClientID, row.Grant, row.Scopes, row.Lacking = l.Issuer, l.Client.ID, string(l.Grant), l.Scopes, l.Lacking
	row.Store, row.LoggedInAt, row.ExpiresAt = l.Kind, cli.Stamp(l.Since), cli.Stamp(l.Expires)
	row.Renewable = l.Renewable && l.Refused == ""
	if l.Kind != login.KindMemory {
		row.File = logins.Path(login.TargetOf(srv))
	}
	if l.Expired(time.Now()) && !row.Renewable {
		row.State = "expired"
	}
	if l.Refused != "" {
		row.State, row.Error = "refused", printable.Line(l.Refused, 1000)
	}
	if err != nil {
		row.Error = printable.Line(err.Error(), 1000)
	}
	return row
}

func showLogins(ctx context.Context, env *cli.Env, g *cli.Globals, renew bool, logins *login.Store, servers []config.Server) error {
	rows := []authRow{}
	var failed []string
	for _, srv := range servers {
		l, err := logins.Get(login.TargetOf(srv))
		if err == nil && renew && (l.Renewable || l.Refused != "" || l.Expired(time.Now())) {
			var renewed *login.Login
			if renewed, err = logins.TokenSource(login.TargetOf(srv)).Renew(ctx); err == nil {
				l = renewed
			} else if newest, readErr := logins.Get(login.TargetOf(srv)); readErr == nil {
				l = newest
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				failed = append(failed, fmt.Sprintf("%s: %v", srv.ID, err))
			}
		}
		rows = append(rows, newAuthRow(srv, logins, l, err))
	}
	err := g.Print(env, table.Output{Parts: []table.Part{table.Records(rows, func(r authRow) []string {
		return []string{r.ID, r.words(), r.Issuer, cli.Join(r.Scopes, 5), string(r.Store), env.TimeOf(r.ExpiresAt), r.renewal(), r.Error}
	}, "Server", "Login", "Issuer", "Scopes", "Kept in", "Token expires", "Renewal", "Error").Or("no server needs a login")}})
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return &cli.Failure{Exit: cli.ExitRefused, Code: "refused", Err: errors.New(strings.Join(failed, "; "))}
	}
	return nil
}

// authServers returns the servers with the given ids, or all HTTP servers, including disabled ones,
// if there are no ids.
func authServers(cfg *config.Config, ids []string) ([]config.Server, error) {
	if len(ids) > 0 {
		return cli.SelectServers(cfg, ids)
	}
	var out []config.Server
	for _, srv := range cfg.Servers {
		if login.TargetOf(srv).URL != "" {
			out = append(out, srv)
		}
	}
	return out, nil
}

// words returns the state in lower-case words for people.
func (r authRow) words() string {
	switch r.State {
	case "loggedIn":
		return "logged in"
	case "none":
		return "not logged in"
	}
	return r.State
}

func (r authRow) renewal() string {
	switch {
	case r.Issuer == "":
		return ""
	case r.Renewable:
		return "automatic"
	}
	return "run mcptrack login"
}

// LogoutCommand returns the command logout, the older name of login --out.
func LogoutCommand(env *cli.Env, g *cli.Globals) *cobra.Command {
	var all bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "logout SERVER", Short: "The same as login --out",
		Args:              cli.Args(0, 1),
		ValidArgsFunction: completeLogins(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			return logout(cmd, env, g, args, all, timeout)
		},
	}
	g.AddDemo(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "log out of every server in the config")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "exit after this `DURATION`")
	return cmd
}

// logoutRow is the result for one server that login --out --json prints.
type logoutRow struct {
	ID        string `json:"id"`
	LoggedOut bool   `json:"loggedOut"` // false if there was no login
}

func logout(cmd *cobra.Command, env *cli.Env, g *cli.Globals, args []string, all bool, timeout time.Duration) error {
	if err := oneOrAll(args, all); err != nil {
		return err
	}
	chosen := sharedOptions{servers: args, timeout: timeout, choose: authServers}
	return withLogins(cmd, env, g, chosen, func(ctx context.Context, logins *login.Store, servers []config.Server) error {
		rows := []logoutRow{}
		for _, srv := range servers {
			target := login.TargetOf(srv)
			if target.URL == "" {
				return cli.Usage("server %q is a program on this machine; it has no login", printable.Line(srv.ID, 128))
			}
			gone, err := logins.Delete(ctx, target)
			if err != nil {
				return fmt.Errorf("%s: %w", printable.Line(srv.ID, 128), err)
			}
			rows = append(rows, logoutRow{srv.ID, len(gone) > 0})
		}
		for _, r := range rows {
			switch {
			case !g.Format.Table():
			case r.LoggedOut:
				fmt.Fprintf(env.Err, "logged out of %s\n", printable.Line(r.ID, 128))
			case !all:
				fmt.Fprintf(env.Err, "there was no login for %s\n", printable.Line(r.ID, 128))
			}
		}
		return writeRows(env, g, all, rows, func(r logoutRow) string { return r.ID })
	})
}

// writeRows writes a document: all rows, or the only one. There is nothing on stdout for people.
func writeRows[T any](env *cli.Env, g *cli.Globals, all bool, rows []T, id func(T) string) error {
	out := table.Output{Document: rows, Names: []string{}}
	for _, r := range rows {
		out.Names = append(out.Names, id(r))
	}
	if !all {
		out.Document = rows[0]
	}
	return g.Print(env, out)
}
