package commands

import (
	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
)

func newTail(env *cli.Env, g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail [URL]",
		Short: "Print the events of a running serve-sse (watch --url)",
		Long: `Follows the feed of a serve-sse, local or remote (URL, default
http://127.0.0.1:8722), and resumes after the last event if the connection is lost.
Prints events as watch does: as lines on a terminal, but as NDJSON into a pipe. Events
that the feed no longer has are printed as a gap. The first connection must succeed.
tail is watch --url; without --since it begins now. With --agent it prints short lines
for agents and, without --since, starts after the last event that its last run in this
folder reported; see mcptrack help agents.`,
		Example: `  mcptrack tail
  mcptrack tail --since 1h --type 'resource.*'
  mcptrack tail https://mcp.example --token-file token --json | jq .resourceUri
  mcptrack tail --since 3f9a1c20b7e4d581-42 --count 1
  mcptrack tail --agent --type resource.updated`,
		Args: cli.Args(0, 1),
	}
	return watching(env, g, cmd, func(o *watchOptions, args []string) error { return o.TakeURL(args, cli.DefaultServeURL) })
}
