package commands

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/vault"
)

type vaultOptions struct {
	mcpFlags
	dir    string
	ignore []string
}

func newVault(env *Env, g *globals) *cobra.Command {
	var opts vaultOptions
	cmd := &cobra.Command{
		Use:         "vault DIR",
		Short:       "Serve a folder of Markdown notes as live MCP resources",
		Annotations: manualPage("vault"),
		Example: `  mcptrack vault ~/Notes
  mcptrack vault ~/Notes --ignore 'drafts/**' --ignore '*.excalidraw.md'
  mcptrack vault ~/Notes --addr 0.0.0.0:8724 --token-file token`,
		Args: arguments(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.dir = args[0]
			if err := opts.mcpFlags.check(cmd); err != nil {
				return err
			}
			return runVault(cmd.Context(), env, g, opts)
		},
	}
	opts.mcpFlags.add(cmd, "127.0.0.1:8724")
	cmd.Flags().StringArrayVar(&opts.ignore, "ignore", nil, "`GLOB` of paths to leave out (repeatable)")
	return cmd
}

func runVault(ctx context.Context, env *Env, g *globals, opts vaultOptions) error {
	log := g.logger(env)
	tokens, err := opts.access.tokens(log, nil)
	if err != nil {
		return err
	}
	s, err := vault.NewServer(vault.ServerOptions{
		Version: env.Version, Principal: tokens.Principal, SessionDir: opts.sessionDir(env.dirOf("vault")),
		Vault: vault.Options{Dir: opts.dir, Ignore: opts.ignore, Logger: log},
	})
	if option, ok := errors.AsType[*vault.OptionError](err); ok {
		if option.Option == "ignore" {
			return usage("--%w", err)
		}
		return usage("%w", err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // only releases memory
	tokens.OnChange(func() { s.EndSessions(tokens.HoldsPrincipal) })
	serve := func(ctx context.Context) error { return s.ServeIO(ctx, env.In, env.Out) }
	if !opts.stdio {
		endpoint := mcpEndpoint{handler: s, tokens: tokens, closing: s.Server.Close}
		if serve, err = opts.overHTTP(ctx, env, log, endpoint); err != nil {
			return err
		}
	}
	return whileRunning(ctx, s.Run, s.Ready(), serve)
}
