package commands

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/demo"
)

// newDemoServer returns the command that --demo starts: this program as an ordinary MCP server over
// stdio.
func newDemoServer(env *cli.Env, _ *cli.Globals) *cobra.Command {
	var opts demo.Options
	cmd := &cobra.Command{
		Use:    "demo-server",
		Short:  "Run the MCP server behind --demo over stdio",
		Long:   "Serves a small vault of notes whose content changes automatically.",
		Hidden: true,
		Example: `  # In a config: {"mcpServers": {"demo": {"command": "mcptrack", "args": ["demo-server"], "trackResources": true}}}
  mcptrack list --config config.json
  mcptrack demo-server --interval 500ms`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Version = env.Version
			err := demo.Serve(cmd.Context(), env.In, env.Out, opts)
			if errors.Is(err, io.EOF) || cmd.Context().Err() != nil {
				return nil
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&opts.Interval, "interval", 2*time.Second, "`DURATION` between changes")
	cmd.Flags().TimeVar(&opts.Began, "began", time.Time{}, []string{time.RFC3339}, "continue the changes that began at this `TIME` (default now)")
	cmd.Flags().Uint64Var(&opts.Seed, "seed", 1, "`NUMBER` that seeds the random changes")
	return cmd
}
