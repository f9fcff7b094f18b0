package commands

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
)

func newVersion(env *cli.Env, g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "Prints the version of mcptrack, the version of Go, and the platform.\n\nExit codes: 0 done; 1 failed; 2 wrong usage.",
		Example: `  mcptrack version
  mcptrack version --json`,
		Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				OS      string `json:"os"`
				Arch    string `json:"arch"`
			}{env.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
			return g.Write(env.Out, []string{v.Version}, v, func() error {
				_, err := fmt.Fprintf(env.Out, "mcptrack %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch)
				return err
			})
		},
	}
}

// Version returns the version of this build: the module's version or, without one, the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel+" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
