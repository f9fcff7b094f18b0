package cli

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/report"
)

// reportFormats returns the values of --output that only commands with AddReports have.
func reportFormats() []string { return []string{"sarif", "markdown"} }

// AddReports adds the formats for CI to --output of a command that prints findings; see WriteReport.
// Each of them can also be written to a file, with the same findings: --output can be given several
// times.
func (g *Globals) AddReports(cmd *cobra.Command) {
	cmd.Flags().VarP(&reportOutput{g}, "output", "o", "output `FORMAT`: "+document.Choices(reportFormats()...)+" (default table); sarif=FILE and markdown=FILE also write a file")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(document.Formats(reportFormats()...), cobra.ShellCompDirectiveNoFileComp))
}

// reportOutput is the value of --output of a command with AddReports.
type reportOutput struct{ g *Globals }

func (o *reportOutput) String() string {
	if o.g == nil { // pflag calls it for the zero value
		return ""
	}
	return o.g.output
}

func (o *reportOutput) Set(s string) error {
	if format, file, ok := strings.Cut(s, "="); ok && slices.Contains(reportFormats(), format) {
		if file == "" {
			return fmt.Errorf("%s= needs a FILE", format)
		}
		if o.g.reportFiles == nil {
			o.g.reportFiles = map[string]string{}
		}
		o.g.reportFiles[format] = file
		return nil
	}
	o.g.output, o.g.reports = s, reportFormats()
	return nil
}

func (o *reportOutput) Type() string { return "string" }

// Located returns a function that returns the location of a server in the config, or of the config if it is
// not known where in it the server is.
func Located(cfg *config.Config) func(id string) report.Location {
	text, _ := os.ReadFile(cfg.Path) // without it, locations have no columns
	return func(id string) report.Location {
		srv, ok := cfg.Server(id)
		if !ok || srv.Intent == nil || srv.Intent.Line == 0 || cfg.Path == "" {
			return report.Location{File: cfg.Path, Line: 1}
		}
		return report.At(cfg.Path, text, srv.Intent.Line, srv.Intent.Column)
	}
}

// WriteReport writes a report to the files that --output names, and to w if the output format is one for
// CI: SARIF or Markdown. Otherwise it writes nothing to w and returns false. It makes
// the report only if it writes it.
func (g *Globals) WriteReport(w io.Writer, makeReport func() *report.Report) (bool, error) {
	toStdout := slices.Contains(reportFormats(), g.Format.Name)
	if !toStdout && len(g.reportFiles) == 0 {
		return false, nil
	}
	r := makeReport()
	write := map[string]func(io.Writer, *report.Report) error{"sarif": report.SARIF, "markdown": report.Markdown}
	for _, format := range slices.Sorted(maps.Keys(g.reportFiles)) {
		var text bytes.Buffer
		if err := write[format](&text, r); err != nil {
			return false, err
		}
		if err := os.WriteFile(g.reportFiles[format], text.Bytes(), 0o644); err != nil { //nolint:gosec // a report for others, such as a later step of CI
			return false, fmt.Errorf("--output %s: %s: %w", format, printable.Line(g.reportFiles[format], 200), printable.Unnamed(err))
		}
	}
	if !toStdout {
		return false, nil
	}
	return true, write[g.Format.Name](w, r)
}
