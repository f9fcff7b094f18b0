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

type callOptions struct {
	requestFlags
	server, tool string
	args         []string
	argsJSON     string
	given        map[string]string // parsed from args
	arguments    map[string]any    // parsed from argsJSON
}

func newCall(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts callOptions
	cmd := &cobra.Command{
		Use:   "call SERVER TOOL [--arg NAME=VALUE]... | [--args-json JSON]",
		Short: "Call a tool of a server",
		Long: `Calls one tool and prints the content of its result: text to stdout, binary content
to a pipe, or with --out to a file. --json prints the MCP result.

The value of an --arg is passed as text if the tool's schema says so, else as JSON. A
terminal shows the progress that the server reports; a server that reports progress
may take longer than its requestTimeout. Ctrl-C cancels the call at the server. If the
tool fails, the exit code is 5.

` + requestExits,
		Example: `  mcptrack call everything echo --arg message=hello
  mcptrack call everything get-sum --arg a=2 --arg b=3
  mcptrack call build start --args-json '{"targets":["all"]}' --timeout 10m`,
		Args:              cli.Args(2, 2),
		ValidArgsFunction: completeItems(env, g, catalog.Tools),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := opts.Parse(); err != nil {
				return err
			}
			opts.server, opts.tool = args[0], args[1]
			if len(opts.args) > 0 && opts.argsJSON != "" {
				return cli.Usage("--arg and --args-json cannot be used together")
			}
			if opts.given, err = cli.Pairs("arg", opts.args); err != nil {
				return err
			}
			opts.arguments = map[string]any{}
			if opts.argsJSON != "" {
				if err := json.Unmarshal([]byte(opts.argsJSON), &opts.arguments); err != nil || opts.arguments == nil {
					return cli.UsageHint(`for example --args-json '{"message":"hello"}'`, "--args-json is not a JSON object")
				}
			}
			ctx, cancel := opts.Bound(cmd.Context())
			defer cancel()
			cmd.SetContext(ctx)
			return runCall(ctx, env, g, opts)
		},
	}
	opts.add(cmd)
	cmd.Flags().StringArrayVar(&opts.args, "arg", nil, "argument of the tool, as `NAME=VALUE` (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("arg", completeToolArgument(env, g, &opts.args))
	cmd.Flags().StringVar(&opts.argsJSON, "args-json", "", "all arguments as a `JSON` object")
	return cmd
}

func runCall(ctx context.Context, env *cli.Env, g *cli.Globals, opts callOptions) error {
	return opts.ask(ctx, env, g, target{opts.server, catalog.Tools, opts.tool}, func(ctx context.Context, s *session.Session) (func() error, error) {
		if !s.Info().Capabilities.Tools {
			return nil, lacks(opts.server, catalog.Tools)
		}
		if len(opts.given) > 0 {
			var err error
			if opts.arguments, err = typed(ctx, s, opts); err != nil {
				return nil, err
			}
		}
		raw, err := s.CallTool(ctx, opts.tool, opts.arguments)
		if err != nil {
			return nil, err
		}
		text, failed := session.ToolFailure(raw)
		if !failed {
			return opts.printer(env, g, raw, toolPieces)
		}
		return func() error {
			if documents(g.Format) {
				if err := opts.putDocument(env, g, raw); err != nil {
					return err
				}
			}
			return &cli.Failure{Exit: cli.ExitRefused, Code: "tool_failed", Err: fmt.Errorf("server %q, tool %q: %s", opts.server, printable.Line(opts.tool, 100), text)}
		}, nil
	})
}

// typed converts the values of --arg to the types in the tool's schema.
func typed(ctx context.Context, s *session.Session, opts callOptions) (map[string]any, error) {
	tools, err := s.List(ctx, catalog.Tools)
	if err != nil {
		return nil, err
	}
	tool, ok := tools.Get(opts.tool)
	if !ok {
		return nil, &cli.Failure{Exit: cli.ExitRefused, Code: "not_found", Err: fmt.Errorf("server %q has no tool %q", opts.server, printable.Line(opts.tool, 100)),
			Hint: cli.DidYouMean(opts.tool, tools.Keys(), "the server has: "+cli.Join(tools.Keys(), 20))}
	}
	var described struct {
		InputSchema struct {
			Properties map[string]struct {
				Type any `json:"type"`
			} `json:"properties"`
		} `json:"inputSchema"`
	}
	if err := json.Unmarshal(tool.Raw, &described); err != nil {
		described.InputSchema.Properties = nil // an unreadable schema: guess
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(opts.given)) {
		value := opts.given[name]
		property, known := described.InputSchema.Properties[name]
		var parsed any
		jsonErr := json.Unmarshal([]byte(value), &parsed)
		switch {
		case known && property.Type == "string":
			out[name] = value
		case jsonErr == nil:
			out[name] = json.RawMessage(value)
		case known && property.Type != nil:
			return nil, cli.Usage("invalid --arg %s: expected %v, got %s", printable.Line(name, 60), property.Type, printable.Line(value, 60))
		default:
			out[name] = value
		}
	}
	return out, nil
}

// toolPieces splits a tools/call result into its content blocks, or returns its
// structured content if it has none.
func toolPieces(raw json.RawMessage) ([]piece, error) {
	var result struct {
		Content    []block         `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("malformed result: %w", err)
	}
	if len(result.Content) == 0 && len(result.Structured) > 0 {
		return []piece{{text: string(result.Structured) + "\n"}}, nil
	}
	var pieces []piece
	var err error
	for _, b := range result.Content {
		if pieces, err = b.appendTo(pieces); err != nil {
			return nil, err
		}
	}
	return pieces, nil
}
