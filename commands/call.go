package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/document"
)

const argsExample = `for example --args-json '{"message":"hello"}'`

type callOptions struct {
	requestFlags
	server, tool string
	given        map[string]string // values of --arg
	arguments    map[string]any    // value of --args-json; nil if it is not set
}

func newCall(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts callOptions
	var args []string
	var argsJSON string
	cmd := &cobra.Command{
		Use:   "call SERVER TOOL [--arg NAME=VALUE]... | [--args-json JSON]",
		Short: "Call a tool on a server",
		Long: `Calls one tool and prints the content of its result. A terminal shows JSON indented, and only type,
size and digest of binary content; --out writes it to a file. --json prints the MCP result.

The value of --arg is text if the tool's schema says so, and otherwise JSON. If the schema
refuses an argument, the command fails and sends nothing; --args-json is sent without this
check. Ctrl-C cancels the call at the server.`,
		Example: `  mcptrack call everything echo --arg message=hello
  mcptrack call everything get-sum --arg a=2 --arg b=3
  mcptrack call build start --args-json '{"targets":["all"]}' --timeout 10m`,
		Args:              cli.Args(2, 2),
		ValidArgsFunction: completeItems(env, g, catalog.Tools),
		RunE: func(cmd *cobra.Command, names []string) (err error) {
			opts.server, opts.tool = names[0], names[1]
			if len(args) > 0 && argsJSON != "" {
				return cli.Usage("--arg and --args-json cannot be used together")
			}
			if opts.given, err = cli.Pairs("arg", args); err != nil {
				return err
			}
			if argsJSON != "" {
				err := json.Unmarshal([]byte(argsJSON), &opts.arguments)
				if syntax, wrong := errors.AsType[*json.SyntaxError](err); wrong {
					at := argsJSON[:syntax.Offset]
					if strings.HasPrefix(syntax.Error(), "unexpected end") {
						return cli.UsageHint(argsExample, "--args-json is not JSON: it ends too early")
					}
					last, _ := utf8.DecodeLastRuneInString(at)
					return cli.UsageHint(argsExample, "--args-json is not JSON at character %d, which is %q", utf8.RuneCountInString(at), string(last))
				}
				if err != nil || opts.arguments == nil {
					return cli.UsageHint(argsExample, "--args-json is not a JSON object")
				}
			}
			return opts.run(cmd, env, g)
		},
	}
	opts.add(cmd)
	g.AddDemo(cmd)
	cmd.Flags().StringArrayVar(&args, "arg", nil, "tool argument `NAME=VALUE` (repeatable)")
	_ = cmd.RegisterFlagCompletionFunc("arg", completeArguments(env, g, catalog.Tools, &args))
	cli.MainFlags(cmd, "json", "arg", "args-json", "out", "timeout")
	cmd.Flags().StringVar(&argsJSON, "args-json", "", "all arguments as a `JSON` object")
	return cmd
}

func (o *callOptions) run(cmd *cobra.Command, env *cli.Env, g *cli.Globals) error {
	return o.ask(cmd, env, g, target{o.server, catalog.Tools, o.tool}, func(ctx context.Context, s *session.Session) (func() error, error) {
		if o.arguments == nil {
			var err error
			if o.arguments, err = o.typed(ctx, s); err != nil {
				return nil, err
			}
		}
		raw, err := s.CallTool(ctx, o.tool, o.arguments)
		if err != nil {
			if _, answered := errors.AsType[*session.RPCError](err); answered {
				err = o.explain(ctx, s, err)
			}
			return nil, err
		}
		text, failed := session.ToolFailure(raw)
		if !failed {
			return o.printer(env, g, raw, func(raw json.RawMessage) ([]piece, error) {
				pieces, err := toolPieces(raw)
				if env.OutTTY && o.out == "" {
					for i, p := range pieces {
						if doc, err := document.Indent([]byte(p.text)); err == nil {
							pieces[i].text = string(doc)
						}
					}
				}
				return pieces, err
			})
		}
		return func() error {
			if documents(g.Format) {
				if err := o.putDocument(env, g, raw); err != nil {
					return err
				}
			}
			return o.explain(ctx, s, &cli.Failure{Exit: cli.ExitRefused, Code: "tool_failed", Err: fmt.Errorf("%s: %s: %s", printable.Line(o.server, 128), printable.Line(o.tool, 100), text)})
		}, nil
	})
}

// typed converts the values of --arg to the types in the tool's input schema. It returns a usage
// failure if the schema requires other arguments.
func (o *callOptions) typed(ctx context.Context, s *session.Session) (map[string]any, error) {
	of := target{o.server, catalog.Tools, o.tool}
	tools, err := s.List(ctx, catalog.Tools)
	tool, ok := tools.Get(o.tool)
	switch {
	case ctx.Err() != nil, err != nil && len(o.given) > 0:
		return nil, err
	case !ok && len(o.given) == 0: // a server may have tools that it does not list
		return map[string]any{}, nil
	case !ok:
		return nil, &cli.Failure{Exit: cli.ExitRefused, Code: "not_found", Err: of.missing(),
			Hint: cli.DidYouMean(o.tool, tools.Keys(), printable.Line("the server has: "+cli.Join(tools.Keys(), 20), 1000))}
	}
	in := newInput(tool.Raw)
	if err := in.check(of, slices.Collect(maps.Keys(o.given))); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(o.given)) {
		value := o.given[name]
		property, known := in.Properties[name]
		var parsed any
		jsonErr := json.Unmarshal([]byte(value), &parsed)
		switch {
		case known && property.Type == "string":
			out[name] = value
		case jsonErr == nil:
			out[name] = json.RawMessage(value)
		case known && property.Type != nil:
			return nil, cli.UsageHint("it takes "+in.String(), "%s: %s: the argument %q must be a %s, not %q", printable.Line(o.server, 128), printable.Line(o.tool, 100), printable.Line(name, 60), printable.Line(fmt.Sprint(property.Type), 60), printable.Line(value, 60))
		default:
			out[name] = value
		}
	}
	return out, nil
}

// explain adds to the error of a failed call what the tool takes, if the arguments do not match its
// schema.
func (o *callOptions) explain(ctx context.Context, s *session.Session, err error) error {
	tools, listErr := s.List(ctx, catalog.Tools)
	tool, ok := tools.Get(o.tool)
	if listErr != nil || !ok {
		return err
	}
	problem := newInput(tool.Raw).problem(slices.Collect(maps.Keys(o.arguments)))
	if problem == "" {
		return err
	}
	f, ours := errors.AsType[*cli.Failure](err)
	if !ours {
		f = &cli.Failure{Exit: cli.ExitRefused, Code: "refused", Err: fmt.Errorf("%s: %w", printable.Line(o.server, 128), err)}
	}
	f.Hint = printable.Line(o.tool, 100) + " " + problem
	return f
}

// toolPieces splits a tools/call result into its content blocks. If there are none, it returns the
// structured content.
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
