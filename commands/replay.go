package commands

import (
	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
)

func newReplay(env *cli.Env, g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay [--since ID|TIME|DURATION]",
		Short: "Print stored events (watch --since with --no-follow)",
		Long: `Prints the events that serve-sse has stored, oldest first, as NDJSON: all of them, or
those after an id, since a time (RFC 3339), or within the last DURATION. On a terminal
and with -o table it prints one aligned line for each event, as -v does. Events that are
no longer stored, and entries that are not events (other programs can store anything on
a cluster), are printed as a gap. replay is watch --since with --no-follow; with --url it
prints the stored events of a running serve-sse.

The log of a data directory can be read while serve-sse runs. A log that does not exist
is an error; replay creates none.`,
		Example: `  mcptrack replay --since 2h
  mcptrack replay --since 2026-11-20T08:00:00Z -o table
  mcptrack replay --since 3f9a1c20b7e4d581-42 --type 'resource.*'
  mcptrack replay --nats nats://a:4222,b:4222 --since 1d`,
		Args: cli.Args(0, 0),
	}
	return watching(env, g, cmd, func(o *watchOptions, _ []string) error {
		o.stored = true
		return nil
	})
}
