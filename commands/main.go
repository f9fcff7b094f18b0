// Package commands is the command line: one file for every subcommand. Each turns
// flags into an options struct and calls a run function that does not use cobra.
// Every error becomes an exit code in one place, classify.
//
// Commands use the process and its environment only through [Env]. stdout carries data and
// nothing else; logs, progress and hints go to stderr.
//
// Libraries: cobra and pflag, the project's choice; briandowns/spinner for progress
// on a terminal (maintained, Apache 2.0).
package commands

import (
	"context"

	"github.com/spf13/cobra"
)

// Main runs one command line and returns its exit code. ctx ends when the user
// interrupts.
func Main(ctx context.Context, env *Env, args []string) int {
	var g globals
	root := newRoot(env, &g)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	f := classify(cmd.Context(), err)
	if f.exit != exitOK { // a closed pipe is a normal end
		report(env.Err, f, g.wantsJSON(args))
	}
	return f.exit
}

// newRoot builds the command tree.
func newRoot(env *Env, g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "mcptrack",
		Short: "Follow MCP servers and report what changes",
		Long: `mcptrack connects to the MCP servers of your mcp-servers.json, follows their
resources, tools and prompts, and reports every change as it happens: on a
terminal, to a pipe, or over HTTP. It keeps doing so through list changes, crashes,
restarts, floods and edits of the config.`,
		Example: `  # See it work: a built-in server whose resources change
  mcptrack watch --demo

  # Follow the servers of the config, one JSON object per line
  mcptrack watch --json | jq

  # Check the config, and list what its servers offer
  mcptrack validate config/mcp-servers.json
  mcptrack list`,
		Version:           env.Version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		Args:              subcommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"config", "host"} {
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
					return usageHint("leave out --"+name+" to use the default", "--%s is empty", name)
				}
			}
			return g.resolve(env)
		},
	}
	root.SetVersionTemplate("mcptrack {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	g.addFlags(root)
	root.AddGroup(&cobra.Group{ID: "main", Title: "Commands:"})
	for _, cmd := range []*cobra.Command{
		newInit(env, g), newValidateConfig(env, g), newList(env, g), newSubscribe(env, g), newWatch(env, g), newTop(env, g),
		newTrust(env, g), newLogin(env, g), newLogout(env, g), newAuth(env, g),
		newRead(env, g), newPrompt(env, g), newCall(env, g), newServeSSE(env, g), newGateway(env, g), newInject(env, g), newReplay(env, g), newTail(env, g), newHistory(env, g), newDiff(env, g), newStatus(env, g), newVault(env, g), newVersion(env, g),
	} {
		cmd.GroupID = "main"
		root.AddCommand(cmd)
	}
	root.AddCommand(newDemoServer(env, g))
	root.AddCommand(newTopics()...)
	noFiles(root)
	finishBuiltins(root)
	setHelp(root, env, g)
	return root
}
