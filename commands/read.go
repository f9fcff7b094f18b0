package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/skill"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

type readOptions struct {
	requestFlags
	template string
	params   []string
}

func newRead(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts readOptions
	cmd := &cobra.Command{
		Use:   "read SERVER (URI | --template URITEMPLATE [--param K=V]...)",
		Short: "Print the content of a resource",
		Long: `Reads one resource and prints its content unchanged. A terminal shows only type, size and digest of
binary content; --out writes it to a file. --json prints the MCP result.
--template is a URI template (RFC 6570).`,
		Example: `  mcptrack read docs file:///guide.md
  mcptrack read docs file:///logo.png --out logo.png
  mcptrack read docs --template 'notes:///{y}/{n}' --param y=2026 --param n=plan
  mcptrack read docs file:///guide.md --json | jq '.contents[0].mimeType'`,
		Args:              cli.Args(1, 2),
		ValidArgsFunction: completeItems(env, g, catalog.Resources),
		RunE: func(cmd *cobra.Command, args []string) error {
			var uri string
			var err error
			switch {
			case opts.template == "" && len(opts.params) > 0:
				return cli.UsageHint("--param sets a variable of the template", "--param requires --template")
			case opts.template != "" && len(args) == 2:
				return cli.Usage("specify a URI or --template, not both")
			case opts.template != "":
				uri, err = expand(opts.template, opts.params)
			case len(args) < 2:
				return cli.UsageHint("mcptrack list resources "+printable.Line(args[0], 60)+" lists the URIs", "specify a URI or --template")
			default:
				uri = args[1]
			}
			if err != nil {
				return err
			}
			err = opts.ask(cmd, env, g, target{args[0], catalog.Resources, uri}, func(ctx context.Context, s *session.Session) (func() error, error) {
				content, err := readVerified(ctx, s, uri)
				if err != nil {
					return nil, err
				}
				return opts.printer(env, g, content.Raw, contentPieces)
			})
			if f, ours := errors.AsType[*cli.Failure](err); ours && f.Exit == cli.ExitRefused && opts.template != "" {
				if hint := opts.unset(); hint != "" {
					f.Hint = hint
				}
			}
			return err
		},
	}
	opts.add(cmd)
	g.AddDemo(cmd)
	cmd.Flags().StringVar(&opts.template, "template", "", "read the URI that `URITEMPLATE` expands to")
	cmd.Flags().StringArrayVar(&opts.params, "param", nil, "template variable `NAME=VALUE` (repeatable)")
	cli.MainFlags(cmd, "json", "out", "template", "param", "timeout")
	_ = cmd.RegisterFlagCompletionFunc("param", completeParameter(&opts))
	_ = cmd.RegisterFlagCompletionFunc("template", completeNames(env, g, catalog.Templates))
	return cmd
}

// expand expands a URI template. A parameter that is not in the template is a usage error.
func expand(template string, params []string) (string, error) {
	given, err := cli.Pairs("param", params)
	if err != nil {
		return "", err
	}
	uri, err := uritemplate.Expand(template, given)
	if err != nil {
		return "", cli.UsageHint("for example --template 'notes:///{year}/{name}' --param year=2026 --param name=plan", "--template: %w", err)
	}
	return uri, nil
}

// unset returns a hint that lists the template variables without a value, which RFC 6570 allows, or
// "" if all have a value.
func (o *readOptions) unset() string {
	names, err := uritemplate.Variables(o.template)
	if err != nil {
		return ""
	}
	given, _ := cli.Pairs("param", o.params) // cannot fail: the template was already expanded with the parameters
	names = slices.DeleteFunc(names, func(name string) bool { _, set := given[name]; return set })
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("the template has no value for %s; set it with --param NAME=VALUE", printable.Line(strings.Join(names, ", "), 200))
}

// contentPieces splits a resources/read result into its contents.
func contentPieces(raw json.RawMessage) ([]piece, error) {
	var result struct {
		Contents []contentEntry `json:"contents"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("malformed result: %w", err)
	}
	var pieces []piece
	for _, c := range result.Contents {
		p, err := c.piece()
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, p)
	}
	return pieces, nil
}

// readVerified reads a resource. If it is a file of a skill, the content is checked against the skill's
// entry.
func readVerified(ctx context.Context, s *session.Session, uri string) (*session.Content, error) {
	e, err := s.SkillOf(ctx, uri)
	if err != nil {
		return nil, fmt.Errorf("cannot check whether the resource belongs to a skill: %w", err)
	}
	if e == nil {
		return s.Read(ctx, uri)
	}
	content, err := s.ReadSkillFile(ctx, e, uri)
	if refused, ok := errors.AsType[*session.RPCError](err); ok { // a gateway, such as the daemon, may have found it
		var bad skill.Mismatch
		if json.Unmarshal(refused.Data, &bad) == nil && bad.URI != "" {
			return nil, &skill.Mismatch{URI: uri, Reason: printable.Line(bad.Reason, 300)}
		}
	}
	return content, err
}
