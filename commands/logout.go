package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/document"
)

type logoutOptions struct {
	all     bool
	timeout time.Duration
}

func newLogout(env *Env, g *globals) *cobra.Command {
	var opts logoutOptions
	cmd := &cobra.Command{
		Use:   "logout SERVER",
		Short: "Forget the login of a server and revoke its tokens if possible",
		Long: `Deletes the login of a server from this machine, with the client that was registered
for it. The tokens are revoked if the authorization server supports revocation; a failed
revocation is ignored. Running commands make no further request with the login.

Exit codes: 0 done, or there was no login; 1 failed; 2 wrong usage; 3 config invalid or
missing; 6 --timeout expired; 130 interrupted.`,
		Example: `  mcptrack logout notion
  mcptrack logout --all`,
		Args:              arguments(0, 1),
		ValidArgsFunction: completeLogins(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOrAll(args, opts.all); err != nil {
				return err
			}
			chosen := loginsOptions{servers: args, timeout: opts.timeout, choose: authServers}
			return withLogins(cmd, env, g, chosen, func(ctx context.Context, logins *login.Store, servers []config.Server) error {
				return runLogout(ctx, env, g, opts, logins, servers)
			})
		},
	}
	cmd.Flags().BoolVar(&opts.all, "all", false, "log out of every server of the config")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", time.Minute, "`DURATION` that the command may take")
	return cmd
}

// logoutRow is what logout --json prints of one server.
type logoutRow struct {
	ID        string `json:"id"`
	LoggedOut bool   `json:"loggedOut"` // false: there was no login
}

func runLogout(ctx context.Context, env *Env, g *globals, opts logoutOptions, logins *login.Store, servers []config.Server) error {
	rows := []logoutRow{}
	for _, srv := range servers {
		target := login.TargetOf(srv)
		if target.URL == "" {
			return usage("server %q is a program on this machine; it has no login", printable.Line(srv.ID, 128))
		}
		gone, err := logins.Delete(ctx, target)
		if err != nil {
			return fmt.Errorf("server %q: %w", srv.ID, err)
		}
		rows = append(rows, logoutRow{srv.ID, len(gone) > 0})
	}
	if !g.format.Table() {
		if opts.all {
			return document.Write(env.Out, g.format, rows)
		}
		return document.Write(env.Out, g.format, rows[0])
	}
	for _, r := range rows {
		if r.LoggedOut {
			fmt.Fprintf(env.Err, "logged out of %s\n", printable.Line(r.ID, 128))
		} else if !opts.all {
			fmt.Fprintf(env.Err, "there was no login for %s\n", printable.Line(r.ID, 128))
		}
	}
	return nil
}
