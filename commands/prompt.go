package commands

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
)

type promptOptions struct {
	requestFlags
	server, name string
	args         []string
	arguments    map[string]string // parsed from args
}

func newPrompt(env *Env, g *globals) *cobra.Command {
	var opts promptOptions
	cmd := &cobra.Command{
		Use:   "prompt SERVER NAME [--arg NAME=VALUE]...",
		Short: "Print a prompt of a server",
		Long: `Gets one prompt and prints the texts of its messages, each under its role if there
are several. --json prints the MCP result.

` + requestExits,
		Example: `  mcptrack prompt docs summarize --arg style=short
  mcptrack prompt docs summarize --json | jq -r '.messages[].role'`,
		Args:              arguments(2, 2),
		ValidArgsFunction: completeItems(env, g, catalog.Prompts),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := opts.parse(); err != nil {
				return err
			}
			opts.server, opts.name = args[0], args[1]
			if opts.arguments, err = pairs("arg", opts.args); err != nil {
				return err
			}
			ctx, cancel := opts.bound(cmd.Context())
			defer cancel()
			cmd.SetContext(ctx)
			return runPrompt(ctx, env, g, opts)
		},
	}
	opts.add(cmd)
	cmd.Flags().StringArrayVar(&opts.args, "arg", nil, "argument of the prompt, as `NAME=VALUE` (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("arg", completePromptArgument(env, g, &opts.args))
	return cmd
}

func runPrompt(ctx context.Context, env *Env, g *globals, opts promptOptions) error {
	return opts.ask(ctx, env, g, target{opts.server, catalog.Prompts, opts.name}, func(ctx context.Context, s *session.Session) (func() error, error) {
		if !s.Info().Capabilities.Prompts {
			return nil, lacks(opts.server, catalog.Prompts)
		}
		raw, err := s.GetPrompt(ctx, opts.name, opts.arguments)
		if err != nil {
			return nil, err
		}
		return opts.printer(env, g, raw, promptPieces)
	})
}
