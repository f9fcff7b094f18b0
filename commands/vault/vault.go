// Package vault implements the vault command, which serves a folder of Markdown notes. The server
// is in core/vault.
package vault

import (
	"context"
	"embed"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/vault"
)

// Manual contains the help pages of this package, as Markdown.
//
//go:embed *.md
var Manual embed.FS

type options struct {
	cli.MCPFlags
	dir    string
	ignore []string
}

// Command returns the vault command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:         "vault DIR",
		Short:       "Serve a folder of Markdown notes as live MCP resources",
		Annotations: cli.ManualPage("vault"),
		Example: `  mcptrack vault ~/Notes
  mcptrack vault ~/.claude/skills
  mcptrack vault ~/Notes --ignore 'drafts/**' --ignore '*.excalidraw.md'
  mcptrack vault ~/Notes --addr 0.0.0.0:8724 --token-file token`,
		Args: cli.Args(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.dir = args[0]
			if err := opts.MCPFlags.Check(cmd); err != nil {
				return err
			}
			return run(cmd.Context(), env, g, opts)
		},
	}
	opts.MCPFlags.Add(cmd, "127.0.0.1:8724")
	cmd.Flags().StringArrayVar(&opts.ignore, "ignore", nil, "`GLOB` of paths to exclude (repeatable)")
	cli.MainFlags(cmd, "stdio", "addr", "token-file", "ignore")
	return cmd
}

func run(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) error {
	log := g.Logger(env)
	tokens, err := opts.Access.Tokens(log, nil)
	if err != nil {
		return err
	}
	s, err := vault.NewServer(vault.ServerOptions{
		Version: env.Version, Principal: tokens.Principal, SessionDir: opts.SessionDir(env.StateDir("vault")), Tracer: g.Tracer(),
		Vault: vault.Options{Dir: opts.dir, Ignore: opts.ignore, Logger: log},
	})
	if option, ok := errors.AsType[*vault.OptionError](err); ok {
		if option.Option == "ignore" {
			return cli.Usage("--%w", err)
		}
		return cli.Usage("%w", err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "failed", Err: err, Hint: "check the name of the folder, or create it"}
	}
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // Close only releases memory
	tokens.OnChange(func() { s.EndSessions(tokens.HoldsPrincipal) })
	serve := func(ctx context.Context) error { return s.ServeIO(ctx, env.In, env.Out) }
	if !opts.Stdio {
		card := servercard.Own{Name: "mcptrack-vault", Title: "Vault", Description: "A folder of Markdown notes as resources that change."}
		endpoint := cli.MCPEndpoint{Handler: s, Card: card, Tokens: tokens, Closing: s.Server.Close, Listening: func(url string) {
			served := cli.Plural(s.Vault().Notes(), "note")
			if skills := s.Vault().Skills(); skills > 0 {
				served += " and " + cli.Plural(skills, "skill")
			}
			g.Tell(env, "%s of %s at %s", served, printable.Line(opts.dir, 200), url)
			g.Tell(env, "add it to Claude Code: %s", opts.ClaudeCode("vault", url))
		}}
		if serve, err = opts.OverHTTP(ctx, env, log, endpoint); err != nil {
			return err
		}
	}
	scanned := cli.Ballast() // the first scan leaves twenty times as much garbage as it keeps
	return cli.WhileRunning(ctx, s.Run, s.Ready(), func(ctx context.Context) error {
		scanned()
		return serve(ctx)
	})
}
