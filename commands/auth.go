package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/table"
)

type authOptions struct {
	renew   bool
	timeout time.Duration
}

func newAuth(env *Env, g *globals) *cobra.Command {
	var opts authOptions
	cmd := &cobra.Command{
		Use:   "auth [SERVER...]",
		Short: "Show the logins, where their tokens are and how long they last",
		Long: `Shows the login of every server over HTTP, or of the named ones. No server is contacted,
except with --renew, which renews the tokens now and reports those that cannot be renewed.

Exit codes: 0 done; 1 failed; 2 wrong usage; 3 config invalid or missing; 5 with
--renew, a token could not be renewed, now or before; 6 --timeout expired; 130 interrupted.`,
		Example: `  mcptrack auth
  mcptrack auth notion --renew
  mcptrack auth --json | jq -r '.[] | select(.state != "loggedIn").id'`,
		ValidArgsFunction: completeLogins(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen := loginsOptions{servers: args, timeout: opts.timeout, sends: opts.renew, choose: authServers}
			if opts.renew {
				chosen.choose = loginServers // without disabled ones, which nobody approved
			}
			return withLogins(cmd, env, g, chosen, func(ctx context.Context, logins *login.Store, servers []config.Server) error {
				return runAuth(ctx, env, g, opts, logins, servers)
			})
		},
	}
	cmd.Flags().BoolVar(&opts.renew, "renew", false, "renew the tokens now")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", time.Minute, "`DURATION` that the command may take")
	return cmd
}

// authRow is one element of auth --json.
type authRow struct {
	ID         string     `json:"id"`
	URL        string     `json:"url"`
	State      string     `json:"state"` // loggedIn, expired, refused, none, header or failed
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

	expires time.Time
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
	row.Store, row.LoggedInAt, row.ExpiresAt, row.expires = l.Kind, stamp(l.Since), stamp(l.Expires), l.Expires
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

func runAuth(ctx context.Context, env *Env, g *globals, opts authOptions, logins *login.Store, servers []config.Server) error {
	rows := []authRow{}
	var failed []string
	for _, srv := range servers {
		l, err := logins.Get(login.TargetOf(srv))
		if err == nil && opts.renew && (l.Renewable || l.Refused != "" || l.Expired(time.Now())) {
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
	if err := writeAuth(env, g, rows); err != nil {
		return err
	}
	if len(failed) > 0 {
		return &failure{exit: exitRefused, code: "refused", err: errors.New(strings.Join(failed, "; "))}
	}
	return nil
}

// authServers returns the named servers, or else all servers over HTTP, including disabled
// ones.
func authServers(cfg *config.Config, ids []string) ([]config.Server, error) {
	if len(ids) > 0 {
		return selectServers(cfg, ids)
	}
	var out []config.Server
	for _, srv := range cfg.Servers {
		if login.TargetOf(srv).URL != "" {
			out = append(out, srv)
		}
	}
	return out, nil
}

func writeAuth(env *Env, g *globals, rows []authRow) error {
	switch {
	case g.format.Name == "name":
		for _, r := range rows {
			if _, err := fmt.Fprintln(env.Out, printable.Line(r.ID, 0)); err != nil {
				return err
			}
		}
		return nil
	case !g.format.Table():
		return document.Write(env.Out, g.format, rows)
	}
	var cells [][]string
	for _, r := range rows {
		cells = append(cells, []string{r.ID, r.State, r.Issuer, join(r.Scopes, 5), string(r.Store), r.expiry(), r.renewal(), r.Error})
	}
	return table.Rows(env.Out, []string{"Server", "Login", "Issuer", "Scopes", "Kept in", "Token expires", "Renewal", "Error"}, cells)
}

func (r *authRow) expiry() string {
	switch left := time.Until(r.expires); {
	case r.expires.IsZero():
		return ""
	case left < 0:
		return "expired"
	default:
		return "in " + left.Round(time.Second).String()
	}
}

func (r *authRow) renewal() string {
	switch {
	case r.Issuer == "":
		return ""
	case r.Renewable:
		return "automatic"
	}
	return "run mcptrack login"
}
