package commands

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/output/table"
)

func newVersion(env *cli.Env, g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "Prints the version of mcptrack, the version of Go, and the platform; with --json also the\ncommit, its date and the versions of MCP.",
		Example: `  mcptrack version
  mcptrack version --json`,
		Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			commit, date := source()
			v := struct {
				Version  string   `json:"version"`
				Commit   string   `json:"commit"` // empty if the build does not record it
				Date     string   `json:"date"`   // of the commit
				Go       string   `json:"go"`
				Platform string   `json:"platform"`
				Versions []string `json:"protocolVersions"`
			}{env.Version, commit, date, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, mcp.Versions()}
			return g.Print(env, table.Output{Document: v, Names: []string{v.Version},
				Parts: []table.Part{table.Text("mcptrack %s %s %s", v.Version, v.Go, v.Platform)}})
		},
	}
}

// Version returns the version of this build: the module's version or, without one, the commit.
func Version() string { return ipc.ThisBuild("").Version }

// source returns the commit of this build and the time of the commit. Both are empty if the build
// does not record them.
func source() (commit, date string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", ""
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.time":
			date = s.Value
		}
	}
	return commit, date
}
