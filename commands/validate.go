package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/document"
)

type validateOptions struct {
	files  []string
	strict bool
	schema bool
	format document.Format
}

func newValidateConfig(env *Env, g *globals) *cobra.Command {
	var opts validateOptions
	cmd := &cobra.Command{
		Use:     "validate-config [FILE...]",
		Aliases: []string{"validate"},
		Short:   "Say everything that is wrong with a config, without starting a server",
		Long: `Checks config files and tells all problems of all of them at once, each with
its line and column. No server is started or reached.

Exit codes: 0 valid; 2 wrong usage; 3 a file has errors or is missing.`,
		Example: `  mcptrack validate config/mcp-servers.json
  mcptrack validate --strict --json .mcp.json .cursor/mcp.json
  mcptrack validate --schema > mcp-servers.schema.json`,
		ValidArgsFunction: cobra.FixedCompletions([]string{"json", "jsonc"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.files, opts.format = args, g.format
			if len(args) == 0 {
				path, _ := g.configPath(env, g.logger(env))
				opts.files = []string{path}
			}
			return runValidateConfig(cmd.Context(), env, opts)
		},
	}
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "turn warnings into errors")
	cmd.Flags().BoolVar(&opts.schema, "schema", false, "print the JSON Schema of the file and do nothing else")
	return cmd
}

// fileReport is what is said about one file.
type fileReport struct {
	File     string           `json:"file"`
	Valid    bool             `json:"valid"`
	Servers  []config.Summary `json:"servers"`
	Problems config.Problems  `json:"problems"`

	tracked int
}

func runValidateConfig(ctx context.Context, env *Env, opts validateOptions) error {
	if opts.schema {
		_, err := env.Out.Write(config.Schema())
		return err
	}
	reports := make([]fileReport, 0, len(opts.files))
	valid := true
	for _, file := range opts.files {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		read := configOptions(env)
		read.Strict = opts.strict
		cfg, problems := config.Load(file, read)
		if problems == nil {
			problems = config.Problems{}
		}
		reports = append(reports, fileReport{File: file, Valid: cfg != nil, Servers: cfg.Summaries(), Problems: problems, tracked: cfg.Tracked()})
		valid = valid && cfg != nil
	}
	if err := writeReports(env.Out, opts.format, valid, reports); err != nil {
		return err
	}
	if !valid {
		return invalidFiles(reports)
	}
	return nil
}

// invalidFiles is the failure for the exit code: what is wrong was told already,
// but for the line of JSON on stderr.
func invalidFiles(reports []fileReport) error {
	var names []string
	missing := true
	for _, r := range reports {
		if !r.Valid {
			names = append(names, printable.Line(r.File, 200))
			missing = missing && r.Problems.Has(config.CodeNotFound)
		}
	}
	f := &failure{exit: exitConfig, code: "config_invalid", err: errors.New("invalid: " + strings.Join(names, ", ")), told: true}
	if missing {
		f.code = "config_missing"
	}
	return f
}

func writeReports(w io.Writer, format document.Format, valid bool, reports []fileReport) error {
	switch {
	case format.Table():
		var b strings.Builder
		for _, r := range reports {
			r.text(&b)
		}
		_, err := io.WriteString(w, b.String())
		return err
	case format.Name == "name":
		for _, r := range reports {
			if _, err := fmt.Fprintln(w, printable.Line(r.File, 0)); err != nil {
				return err
			}
		}
		return nil
	default:
		return document.Write(w, format, struct {
			Valid bool         `json:"valid"`
			Files []fileReport `json:"files"`
		}{valid, reports})
	}
}

// text writes the report in the form that editors and terminals make clickable.
func (r fileReport) text(b *strings.Builder) {
	for _, p := range r.Problems {
		fmt.Fprintln(b, printable.Line(p.String(), 0))
		if p.Hint != "" {
			fmt.Fprintf(b, "    hint: %s\n", printable.Line(p.Hint, 0))
		}
	}
	file := printable.Line(r.File, 0)
	switch errs, warns := r.Problems.Errors(), r.Problems.Warnings(); {
	case !r.Valid:
		fmt.Fprintf(b, "%s: %s", file, plural(errs, "error"))
		if warns > 0 {
			fmt.Fprintf(b, ", %s", plural(warns, "warning"))
		}
	default:
		fmt.Fprintf(b, "%s: ok, %s (%d tracked)", file, plural(len(r.Servers), "server"), r.tracked)
		if warns > 0 {
			fmt.Fprintf(b, ", %s", plural(warns, "warning"))
		}
	}
	b.WriteByte('\n')
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
