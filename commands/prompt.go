package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

func newPrompt(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts requestFlags
	var given []string
	cmd := &cobra.Command{
		Use:   "prompt SERVER NAME [--arg NAME=VALUE]...",
		Short: "Print a prompt from a server",
		Long: `Requests one prompt and prints the texts of its messages. If there are several, each has
its role above it. --json prints the MCP result.`,
		Example: `  mcptrack prompt docs summarize --arg style=short
  mcptrack prompt docs summarize --json | jq -r '.messages[].role'`,
		Args:              cli.Args(2, 2),
		ValidArgsFunction: completeItems(env, g, catalog.Prompts),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := cli.Pairs("arg", given)
			if err != nil {
				return err
			}
			of := target{args[0], catalog.Prompts, args[1]}
			return opts.ask(cmd, env, g, of, func(ctx context.Context, s *session.Session) (func() error, error) {
				prompts, listErr := s.List(ctx, catalog.Prompts)
				if prompt, ok := prompts.Get(of.name); ok && listErr == nil { // a server may have prompts that it does not list
					if err := promptInput(prompt.Raw).check(of, slices.Collect(maps.Keys(arguments))); err != nil {
						return nil, err
					}
				}
				raw, err := s.GetPrompt(ctx, args[1], arguments)
				if err != nil {
					return nil, err
				}
				return opts.printer(env, g, raw, promptPieces)
			})
		},
	}
	opts.add(cmd)
	g.AddDemo(cmd)
	cmd.Flags().StringArrayVar(&given, "arg", nil, "prompt argument `NAME=VALUE` (repeatable)")
	cli.MainFlags(cmd, "json", "arg", "out", "timeout")
	_ = cmd.RegisterFlagCompletionFunc("arg", completeArguments(env, g, catalog.Prompts, &given))
	return cmd
}

// promptPieces splits a prompts/get result into the texts of its messages. If there are several,
// each follows its role.
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
