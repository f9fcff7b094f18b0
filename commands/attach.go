package commands

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/gateway"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/daemon/attach"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
)

func newAttach(env *cli.Env, g *cli.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attach [SERVER]",
		Short: "Serve an MCP client on stdio through the daemon",
		Long: `Serves one MCP client on standard input and output through the mcptrack daemon, which it
starts if necessary. With SERVER it serves only that server, whose names stay the same;
otherwise it serves all servers of the config. mcptrack connect writes this command into
the configs of your agents; see mcptrack help daemon.

If it cannot use a daemon, it says so and runs mcptrack gateway --stdio instead. The program
mcptrack-attach does the same with less memory.`,
		Example: `  mcptrack attach
  mcptrack attach github
  mcptrack attach --config mcp-servers.json

  # In the config of a host
  {"mcpServers": {"github": {"command": "mcptrack-attach", "args": ["github"]}}}`,
		Args: cli.Args(0, 1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return cli.Choices(cli.ServerNames(cli.ConfigForCompletion(env, g)), nil)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			server := ""
			if len(args) > 0 {
				if server = args[0]; server == "" {
					return cli.UsageHint("omit SERVER to serve all servers of the config", "SERVER is empty")
				}
			}
			return runAttach(cmd.Context(), env, g, server)
		},
	}
	g.AddApproved(cmd)
	cli.MainFlags(cmd, "config", "approved")
	return cmd
}

func runAttach(ctx context.Context, env *cli.Env, g *cli.Globals, server string) error {
	log := g.Logger(env)
	opts := attach.Options{In: env.In, Out: env.Out, LookupEnv: env.LookupEnv, Build: ipc.ThisBuild(env.Version), Program: env.Executable,
		Server: server, Config: g.Config, Host: g.Host, Approved: g.Approved(), Tell: func(text string) { log.Warn(text) }}
	err := attach.Run(ctx, opts)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if none, ok := errors.AsType[*attach.NoDaemon](err); ok {
		log.Warn(none.Error() + "; the servers are started for this client alone")
		instead := gateway.Command(env, g)
		instead.SilenceErrors, instead.SilenceUsage = true, true
		instead.SetArgs(opts.Gateway())
		return instead.ExecuteContext(ctx)
	}
	if refused, ok := errors.AsType[*ipc.Refused](err); ok {
		return &cli.Failure{Exit: max(refused.Exit, cli.ExitFailed), Code: refused.Code, Err: refused, Hint: refused.Hint}
	}
	return err
}
