// Package commands implements the command line. Each small command is one file; each larger command is
// a package with its flags, help pages and tests:
//
//	audit  connect (with disconnect)  daemon  doctor  gateway  inject  lock (with verify, review, approve and reject)
//	login (with logout and auth)  serve (serve-sse)  vault
//
// Code that all commands share is in internal/cli. Other shared files:
//
//	stream.go   prints events: watch, subscribe, replay, tail
//	agent.go    prints short lines for agents: watch, tail
//	source.go   where events come from beside servers: a log, a running serve-sse (watch, replay, tail)
//	watch_daemon.go  a running daemon: watch
//	request.go  sends one request to one server: read, prompt, call
//	versions.go  finds the versions of a resource or an item: history, and diff, its former name
//	calls.go    reads the record of calls
//	remote.go   queries a running serve-sse: status, top, history
//	topics.go   the help pages that cover more than one command
//
// Each command turns flags into an options struct and calls a run function that does not use cobra.
// cli.Classify maps every error to an exit code. Commands access the process and its environment
// only through [Env]. stdout carries only data; logs, progress and hints are written to stderr.
//
// Libraries: cobra and pflag, the project's choice.
package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/audit"
	"github.com/mcptrack/mcptrack/commands/connect"
	"github.com/mcptrack/mcptrack/commands/daemon"
	"github.com/mcptrack/mcptrack/commands/doctor"
	"github.com/mcptrack/mcptrack/commands/gateway"
	"github.com/mcptrack/mcptrack/commands/inject"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/lock"
	"github.com/mcptrack/mcptrack/commands/login"
	"github.com/mcptrack/mcptrack/commands/serve"
	"github.com/mcptrack/mcptrack/commands/vault"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Env contains everything that a command uses from its process.
type Env = cli.Env

// Terminal is the user's terminal, on which questions are asked; see Env.
type Terminal = cli.Terminal

// Main runs one command line and returns its exit code. ctx must end when the user interrupts the
// command.
func Main(ctx context.Context, env *cli.Env, args []string) int {
	var g cli.Globals
	root := newRoot(env, &g, args...)
	root.SetArgs(args)
	defer g.EndTraces()
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return cli.ExitOK
	}
	f := cli.Classify(cmd.Context(), err)
	if f.Exit != cli.ExitOK { // a closed output pipe is a normal end
		g.Report(env, f, g.WantsJSON(args))
	}
	return f.Exit
}

// entry is a command of the tree.
type entry struct {
	name    string
	command func(*cli.Env, *cli.Globals) *cobra.Command
}

// group is a part of the list of commands in the help of mcptrack.
type group struct {
	title    string
	commands []entry
}

// groups returns all commands. Help lists those of groups with a title, in this order; those of the last group,
// which are former names and what programs run, are hidden.
func groups() []group {
	return []group{
		{"Look", []entry{{"list", newList}, {"read", newRead}, {"call", newCall}, {"prompt", newPrompt}, {"watch", newWatch}, {"subscribe", newSubscribe}, {"top", newTop}, {"history", newHistory}}},
		{"Check", []entry{{"lock", lock.Command}, {"verify", lock.VerifyCommand}, {"review", lock.ReviewCommand}, {"audit", audit.Command}, {"doctor", doctor.Command}}},
		{"Share", []entry{{"connect", connect.Command}, {"daemon", daemon.Command}}},
		{"Serve", []entry{{"serve-sse", serve.Command}, {"gateway", gateway.Command}, {"vault", vault.Command}, {"inject", inject.Command}}},
		{"Set up", []entry{{"init", newInit}, {"validate", newValidate}, {"trust", newTrust}, {"login", login.Command}}},
		{"", []entry{{"calls", newCalls}, {"status", newStatus}, {"webhooks", newWebhooks}, {"version", newVersion}}},
		{"", []entry{{"approve", lock.ApproveCommand}, {"reject", lock.RejectCommand}, {"diff", newDiff}, {"tail", newTail}, {"replay", newReplay}, {"ps", daemon.PSCommand},
			{"attach", newAttach}, {"disconnect", connect.DisconnectCommand}, {"auth", login.AuthCommand}, {"logout", login.LogoutCommand}, {"demo-server", newDemoServer}}},
	}
}

// named returns the name of the command that a command line runs or completes, or "" if it may concern others.
// root has the flags of all commands.
func named(root *cobra.Command, args []string) string {
	if len(args) > 2 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		args = args[1:]
	}
	for _, group := range groups() {
		for _, e := range group.commands {
			root.AddCommand(&cobra.Command{Use: e.name})
		}
	}
	defer root.ResetCommands()
	if cmd, _, err := root.Find(args); err == nil && cmd != root {
		return cmd.Name()
	}
	return ""
}

// newRoot builds the command tree for a command line. If it names a command, this is the only one, because building
// them all takes longer than what most commands do.
func newRoot(env *cli.Env, g *cli.Globals, args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "mcptrack",
		Short: "Follow MCP servers and report what changes",
		Long: `mcptrack connects to the MCP servers in your mcp-servers.json, follows their resources,
tools and prompts, and reports every change as it happens: on a terminal, to a pipe, or
over HTTP. It continues when a server crashes or restarts, and when you edit the config.`,
		Example: `  # See it work: a built-in server whose resources change
  mcptrack watch --demo

  # Follow the servers of the config, one JSON object per line
  mcptrack watch --json | jq

  # Check the config, and list what its servers offer
  mcptrack validate
  mcptrack list tools`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		Args:              subcommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"config", "host"} {
				if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
					return cli.UsageHint("omit --"+name+" to use the default", "--%s is empty", name)
				}
			}
			if err := g.Resolve(env); err != nil {
				return err
			}
			if isTraced(cmd) {
				g.StartTraces(cmd.Context(), env)
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagError(cmd, err, func() []*cobra.Command { return newRoot(env, &cli.Globals{}).Commands() })
	})
	root.SetIn(env.In)
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	g.AddFlags(root)
	setHelp(root, env, g)
	only, all := named(root, args), groups()
	for i, group := range all {
		for _, e := range group.commands {
			if only == "" || only == e.name {
				cmd := e.command(env, g)
				cmd.Hidden = i == len(all)-1
				root.AddCommand(cmd)
			}
		}
	}
	noFiles(root)
	if root.CompletionOptions.DisableDefaultCmd = only != ""; only == "" {
		root.AddCommand(newTopics()...)
		finishBuiltins(root)
	}
	return root
}

// isTraced reports whether a command sends traces: those that make or serve requests for others, and
// those that follow servers. Commands that look once, such as list, never start the SDK.
func isTraced(cmd *cobra.Command) bool {
	switch cmd.CommandPath() {
	case "mcptrack call", "mcptrack read", "mcptrack prompt", "mcptrack watch", "mcptrack subscribe",
		"mcptrack serve-sse", "mcptrack inject", "mcptrack gateway", "mcptrack vault", "mcptrack daemon":
		return true
	}
	return false
}

// subcommand rejects the arguments of a command that only groups subcommands, because such an
// argument is an unknown subcommand.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if !c.Hidden && (c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand()) {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	return cli.UsageHint(cli.DidYouMean(args[0], names, "see "+cmd.CommandPath()+" --help"),
		"unknown command %q", printable.Line(args[0], 100))
}

// flagError returns a readable error for an invalid flag, because the errors of pflag quote errors
// of the Go library. all returns all commands.
func flagError(cmd *cobra.Command, err error, all func() []*cobra.Command) error {
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 { // cobra parsed it as a flag of the parent command
		return subcommand(cmd, cmd.Flags().Args())
	}
	if errors.Is(err, pflag.ErrHelp) { // -h
		return pflag.ErrHelp
	}
	see := "see " + cmd.CommandPath() + " --help"
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := e.GetSpecifiedName()
		if group := e.GetSpecifiedShortnames(); group != "" {
			return cli.UsageHint(see, "unknown flag -%s", printable.Line(string([]rune(name)[:1]), 0))
		}
		if cmd.Name() == "gateway" && (name == "pin" || name == "repin") {
			see = "the lock replaces it: mcptrack lock approves what servers offer, and mcptrack gateway enforces it"
			return cli.UsageHint(see, "unknown flag --%s", name)
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, "--"+f.Name)
			}
		})
		hint := cli.DidYouMean("--"+name, names, flagElsewhere(all(), name, see))
		for _, listens := range []string{"addr", "listen"} {
			if cmd.Flags().Lookup(listens) != nil && slices.Contains([]string{"addr", "address", "bind", "host", "http", "listen", "port"}, name) {
				hint = "use --" + listens + " for the address or port to listen on"
			}
		}
		return cli.UsageHint(hint, "unknown flag --%s", printable.Line(name, 100))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		f := e.GetFlag()
		value, _ := pflag.UnquoteUsage(f)
		return cli.UsageHint(see, "--%s needs a value: --%s %s", f.Name, f.Name, value)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := e.GetFlag()
		if f.Name == "count" && cmd.Flags().Lookup("server") != nil && !strings.ContainsAny(e.GetValue(), "0123456789") {
			see = "to select a server use --server " + printable.Line(e.GetValue(), 60)
		}
		return cli.UsageHint(see, "invalid value %q for --%s; expected %s", printable.Line(e.GetValue(), 60), f.Name, expected(f))
	}
	if e, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return cli.UsageHint(see, "invalid flag %q", printable.Line(e.GetSpecifiedFlag(), 100))
	}
	return cli.UsageHint(see, "%w", err)
}

// flagElsewhere returns a hint that lists the commands that have the flag, or the fallback if there are none.
func flagElsewhere(all []*cobra.Command, name, fallback string) string {
	var have []string
	for _, c := range all {
		if c.IsAvailableCommand() && c.LocalNonPersistentFlags().Lookup(name) != nil {
			have = append(have, c.Name())
		}
	}
	if len(have) == 0 {
		return fallback
	}
	return fmt.Sprintf("--%s is a flag of %s", name, cli.Join(have, 10))
}

// expected describes the values that a flag accepts.
func expected(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "an integer"
	case "uint64":
		return "a non-negative integer"
	case "bool", "boolfunc":
		return "true or false"
	case "duration":
		return "a duration such as 500ms, 30s or 1h30m"
	case "stringToString":
		return "NAME=VALUE, several separated by commas"
	case "stringSlice":
		return "values separated by commas, with balanced quotes"
	}
	return "a " + f.Value.Type()
}
