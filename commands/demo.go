package commands

import (
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/demo"
)

// newDemoServer is the server behind --demo: this program started again, as an
// ordinary MCP server over stdio.
func newDemoServer(env *Env, _ *globals) *cobra.Command {
	var opts demo.Options
	cmd := &cobra.Command{
		Use:    "demo-server",
		Short:  "Be the MCP server behind --demo, over stdio",
		Long:   "Serves a small vault of notes that change by themselves.\n\nExit codes: 0 done; 1 failed; 2 wrong usage.",
		Hidden: true,
		Example: `  # In a config: {"mcpServers": {"demo": {"command": "mcptrack", "args": ["demo-server"], "trackResources": true}}}
  mcptrack list --config config.json
  mcptrack demo-server --interval 500ms`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Version = env.Version
			err := demo.Serve(cmd.Context(), env.In, env.Out, opts)
			if errors.Is(err, io.EOF) || cmd.Context().Err() != nil {
				return nil
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&opts.Interval, "interval", 2*time.Second, "`TIME` between two changes")
	cmd.Flags().Uint64Var(&opts.Seed, "seed", 1, "`NUMBER` that chooses what changes")
	return cmd
}

// demoConfig follows the built-in server.
func demoConfig(env *Env) *config.Config {
	return &config.Config{Servers: []config.Server{{
		ID: "demo", Enabled: true, Transport: config.TransportStdio,
		Command: env.Executable, Args: []string{"demo-server"},
		TrackResources: true, TrackTools: true, TrackPrompts: true,
		Read: config.ReadDigest, PollInterval: config.DefaultPollInterval,
		Protocol: config.ProtocolAuto, RequestTimeout: config.DefaultRequestTimeout,
	}}}
}
