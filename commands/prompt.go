package commands

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

type promptOptions struct {
	requestFlags
	server, name string
	args         []string
	arguments    map[string]string // parsed from args
}

func newPrompt(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts promptOptions
	cmd := &cobra.Command{
		Use:   "prompt SERVER NAME [--arg NAME=VALUE]...",
		Short: "Print a prompt of a server",
		Long: `Gets one prompt and prints the texts of its messages, each under its role if there
are several. --json prints the MCP result.

` + requestExits,
		Example: `  mcptrack prompt docs summarize --arg style=short
  mcptrack prompt docs summarize --json | jq -r '.messages[].role'`,
		Args:              cli.Args(2, 2),
		ValidArgsFunction: completeItems(env, g, catalog.Prompts),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := opts.Parse(); err != nil {
				return err
			}
			opts.server, opts.name = args[0], args[1]
			if opts.arguments, err = cli.Pairs("arg", opts.args); err != nil {
				return err
			}
			ctx, cancel := opts.Bound(cmd.Context())
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

func runPrompt(ctx context.Context, env *cli.Env, g *cli.Globals, opts promptOptions) error {
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

// promptPieces splits a prompts/get result into the texts of its messages, each under
// its role if there are several.
func promptPieces(raw json.RawMessage) ([]piece, error) {
	var result struct {
		Messages []struct {
			Role    string `json:"role"`
			Content block  `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("malformed result: %w", err)
	}
	var pieces []piece
	var err error
	for i, m := range result.Messages {
		if len(result.Messages) > 1 {
			head := printable.Line(m.Role, 40) + ":\n"
			if i > 0 {
				head = "\n" + head
			}
			pieces = append(pieces, piece{text: head})
		}
		if pieces, err = m.Content.appendTo(pieces); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}
