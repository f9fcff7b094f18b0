package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/table"
)

type validateOptions struct {
	files  []string
	others []string // host configs found; each gets one line and its errors, but no warnings
	read   config.Options
	strict bool
	schema bool
}

func newValidate(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts validateOptions
	cmd := &cobra.Command{
		Use:     "validate [FILE...]",
		Aliases: []string{"validate-config"},
		Short:   "Check configs and report every problem; starts no server",
		Long: `Checks configs and reports every problem with its line and column. It starts no
server. Without FILE it checks the config that other commands would use. It also checks
the configs of your editors and agents, but reports only their errors. A missing variable
or program is a warning.`,
		Example: `  mcptrack validate config/mcp-servers.json
  mcptrack validate
  mcptrack validate --strict --json .mcp.json .cursor/mcp.json
  mcptrack validate --schema > mcp-servers.schema.json`,
		Args:              cli.Args(0, -1),
		ValidArgsFunction: cobra.FixedCompletions([]string{"json", "jsonc", "toml", "yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.files, opts.others = args, nil
			opts.read = g.ConfigOptions(env)
			opts.read.Strict = opts.strict
			if g.Demo() {
				if len(args) > 0 {
					return cli.UsageHint("remove "+printable.Line(args[0], 200)+" or --demo", "--demo uses a built-in server and no config; it cannot be used with a config file")
				}
				if opts.schema {
					return cli.Usage("--demo and --schema cannot be used together")
				}
				cfg, err := g.Read(env, g.Logger(env))
				if err != nil {
					return err
				}
				return writeReports(env, g, true, []fileReport{{File: "demo", Valid: true, Servers: cfg.Summaries(), Problems: config.Problems{}, tracked: cfg.Tracked()}})
			}
			if len(args) == 0 && !opts.schema {
				if err := opts.find(env, g); err != nil {
					return err
				}
			}
			return runValidate(cmd.Context(), env, g, opts)
		},
	}
	g.AddDemo(cmd)
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "turn warnings into errors")
	cmd.Flags().BoolVar(&opts.schema, "schema", false, "print the JSON Schema of config files and exit")
	cli.MainFlags(cmd, "json", "strict", "schema")
	return cmd
}

// fileReport is the validation report for one file.
type fileReport struct {
	File     string           `json:"file"`
	Valid    bool             `json:"valid"`
	Servers  []config.Summary `json:"servers"`
	Problems config.Problems  `json:"problems"`

	tracked int
	brief   bool // omit warnings
}

// find selects the files to validate if none is specified.
func (o *validateOptions) find(env *cli.Env, g *cli.Globals) error {
	path, err := g.ConfigPath(env, g.Logger(env))
	if err == nil {
		o.files = []string{path}
	}
	if g.Config != "" || g.Host != "" {
		return err
	}
	for _, f := range config.HostFiles(o.read) {
		if f.Path != path {
			o.others = append(o.others, f.Path)
		}
	}
	if len(o.others) > 0 {
		return nil
	}
	return err
}

func runValidate(ctx context.Context, env *cli.Env, g *cli.Globals, opts validateOptions) error {
	if opts.schema {
		_, err := env.Out.Write(config.Schema())
		return err
	}
	reports := make([]fileReport, 0, len(opts.files))
	valid := true
	for i, file := range slices.Concat(opts.files, opts.others) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		cfg, problems := config.Load(file, opts.read)
		if problems == nil {
			problems = config.Problems{}
		}
		reports = append(reports, fileReport{File: file, Valid: problems.Errors() == 0, Servers: cfg.Summaries(), Problems: problems,
			tracked: cfg.Tracked(), brief: i >= len(opts.files)})
		valid = valid && problems.Errors() == 0
	}
	if err := writeReports(env, g, valid, reports); err != nil {
		return err
	}
	if !valid {
		return invalidFiles(reports)
	}
	return nil
}

// invalidFiles returns the error that determines the exit code. It is reported only with --json, as
// one line on stderr, because the problems are already printed.
func invalidFiles(reports []fileReport) error {
	var names []string
	missing := true
	for _, r := range reports {
		if !r.Valid {
			names = append(names, printable.Line(r.File, 200))
			missing = missing && r.Problems.Has(config.CodeNotFound)
		}
	}
	f := &cli.Failure{Exit: cli.ExitConfig, Code: "config_invalid", Err: errors.New("invalid: " + strings.Join(names, ", ")), Reported: true}
	if missing {
		f.Code = "config_missing"
	}
	return f
}

func writeReports(env *cli.Env, g *cli.Globals, valid bool, reports []fileReport) error {
	out := table.Output{Document: struct {
		Valid bool         `json:"valid"`
		Files []fileReport `json:"files"`
	}{valid, reports}}
	for _, r := range reports {
		out.Names, out.Parts = append(out.Names, r.File), append(out.Parts, r.text())
	}
	return g.Print(env, out)
}

// text returns the report for people. Problems start with FILE:LINE:COL, which editors and
// terminals turn into links.
func (r fileReport) text() table.Part {
	var b strings.Builder
	for _, p := range r.Problems {
		if r.brief && p.Severity != config.SeverityError {
			continue
		}
		b.WriteString(printable.Line(p.String(), 0) + "\n")
		if p.Hint != "" {
			b.WriteString("    hint: " + printable.Line(p.Hint, 0) + "\n")
		}
	}
	result, warnings := cli.Plural(r.Problems.Errors(), "error"), r.Problems.Warnings()
	if r.Valid {
		result = fmt.Sprintf("ok, %s (%d tracked)", cli.Plural(len(r.Servers), "server"), r.tracked)
	}
	if warnings > 0 {
		result += ", " + cli.Plural(warnings, "warning")
	}
	return table.Text("%s%s: %s", b.String(), printable.Line(r.File, 0), result)
}
