package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/output/report"
)

// TestReports: --output can be given several times, for one listing and reports for several readers.
func TestReports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sarif, comment := filepath.Join(dir, "a=b.sarif"), filepath.Join(dir, "comment.md")
	missing := filepath.Join(dir, "no", "file")
	for name, c := range map[string]struct {
		args   []string
		stdout string            // how it begins
		files  map[string]string // and how these begin
		err    string
	}{
		"table":             {nil, "", nil, ""},
		"one":               {[]string{"-o", "markdown"}, "<!-- mcptrack verify -->", nil, ""},
		"and files":         {[]string{"-o", "markdown=" + comment, "-o", "sarif", "--output=sarif=" + sarif}, "{\n", map[string]string{sarif: "{\n", comment: "<!-- mcptrack verify -->"}, ""},
		"files and a table": {[]string{"-o", "sarif=" + sarif}, "", map[string]string{sarif: "{\n"}, ""},
		"no file":           {[]string{"-o", "sarif="}, "", nil, "sarif= needs a FILE"},
		"no folder":         {[]string{"-o", "sarif=" + missing}, "", nil, "--output sarif: " + missing + ": no such file or directory"},
		"no JUnit":          {[]string{"-o", "junit"}, "", nil, "sarif, markdown"},
		"no report":         {[]string{"-o", "json=" + sarif}, "", nil, "json="},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			g := &Globals{}
			cmd := &cobra.Command{Use: "verify", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
				if err := g.Resolve(&Env{LookupEnv: func(string) (string, bool) { return "", false }}); err != nil {
					return err
				}
				written, err := g.WriteReport(&out, func() *report.Report { return &report.Report{Command: "verify"} })
				if written != (c.stdout != "") {
					t.Errorf("written: %t", written)
				}
				return err
			}}
			g.AddFlags(cmd)
			g.AddReports(cmd)
			cmd.SetArgs(c.args)
			err := cmd.Execute()
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if !strings.HasPrefix(out.String(), c.stdout) || c.stdout == "" && out.Len() > 0 {
				t.Errorf("stdout %q", out.String())
			}
			for file, begin := range c.files {
				data, err := os.ReadFile(file)
				if err != nil || !strings.HasPrefix(string(data), begin) {
					t.Errorf("%s: %v: %.80s", file, err, data)
				}
				if err := os.Remove(file); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
