// Package commands is the command line: one file for every subcommand, each
// turning flags into an options struct and calling a run function that knows no
// cobra. Every error becomes an exit code in one place, classify.
//
// A command knows of the world what [Env] tells it. stdout carries data and
// nothing else; logs, progress and hints go to stderr.
//
// Libraries: cobra and pflag, the owner's choice; briandowns/spinner for progress
// on a terminal (maintained, Apache 2.0).
package commands

import (
	"context"
	"errors"
	"strings"

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
	if _, ours := errors.AsType[*failure](err); !ours && isUsage(err) {
		f = &failure{exit: exitUsage, code: "usage", err: err, hint: "see " + cmd.CommandPath() + " --help"}
	}
	if f.exit != exitOK { // a closed pipe is an end, not a failure
		report(env.Err, f, g.wantsJSON(args))
	}
	return f.exit
}

// isUsage recognises the errors that cobra and pflag make themselves: both give
// them no type.
func isUsage(err error) bool {
	for _, prefix := range []string{"unknown command", "unknown flag", "unknown shorthand", "flag needs an argument",
		"invalid argument", "accepts ", "requires at least", "requires at most", "required flag", "if any flags in the group", "bad flag syntax"} {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}

// newRoot builds the tree of commands.
func newRoot(env *Env, g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "mcptrack",
		Short: "Follow MCP servers and tell what changes",
		Long: `mcptrack connects to the MCP servers of your mcp-servers.json, follows their
resources, tools and prompts, and tells every change as it happens: to a pipe, to
a terminal, to whoever subscribes. It keeps that true through list changes,
crashes, restarts, floods and edits of the config.`,
		Example: `  # See it work: a built-in server whose resources change
  mcptrack watch --demo

  # Follow the servers of the config, one JSON object per line
  mcptrack watch --json | jq

  # What is wrong with the config, and what do the servers offer?
  mcptrack validate config/mcp-servers.json
  mcptrack list`,
		Version:           env.Version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		Args:              cobra.NoArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return g.check(env) },
	}
	root.SetVersionTemplate("mcptrack {{.Version}}\n")
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	g.addFlags(root)
	root.AddGroup(&cobra.Group{ID: "main", Title: "Commands:"})
	for _, cmd := range []*cobra.Command{
		newValidateConfig(env, g), newList(env, g), newSubscribe(env, g), newWatch(env, g),
		newRead(env, g), newPrompt(env, g), newCall(env, g), newServeSSE(env, g), newGateway(env, g), newInject(env, g), newReplay(env, g), newStatus(env, g), newVault(env, g), newVersion(env, g),
	} {
		cmd.GroupID = "main"
		root.AddCommand(cmd)
	}
	root.AddCommand(newDemoServer(env, g))
	root.AddCommand(newTopics()...)
	finishBuiltins(root)
	return root
}
