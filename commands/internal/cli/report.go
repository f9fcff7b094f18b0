package cli

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/report"
)

// reportFormats returns the values of --output that only commands with AddReports have.
func reportFormats() []string { return []string{"sarif", "junit", "markdown"} }

// AddReports adds the formats for CI to --output of a command that prints findings; see WriteReport.
func (g *Globals) AddReports(cmd *cobra.Command) {
	cmd.Flags().VarP(&reportOutput{g}, "output", "o", "output `FORMAT`: "+document.Choices(reportFormats()...)+" (default table)")
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
	o.g.output, o.g.reports = s, reportFormats()
	return nil
}

func (o *reportOutput) Type() string { return "string" }

// WriteReport writes a report if the output format is one for CI: SARIF, JUnit XML or Markdown.
// Otherwise it writes nothing and returns false.
func (g *Globals) WriteReport(w io.Writer, r *report.Report) (bool, error) {
	if !slices.Contains(reportFormats(), g.Format.Name) {
		return false, nil
	}
	write := map[string]func(io.Writer, *report.Report) error{"sarif": report.SARIF, "junit": report.JUnit, "markdown": report.Markdown}
	return true, write[g.Format.Name](w, r)
}
