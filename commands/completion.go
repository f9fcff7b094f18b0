package commands

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/completion"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// finishBuiltins completes cobra's built-in commands help and completion. It adds examples,
// and an error for an unknown name, for which cobra would print help and exit with 0.
func finishBuiltins(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Example = `  mcptrack help watch
  mcptrack help exit-codes`
			cmd.Args = func(_ *cobra.Command, args []string) error { return knownTopic(root, args) }
		case "completion":
			finishCompletion(cmd)
		}
	}
}

// knownTopic returns an error unless args identify a command or a help topic.
func knownTopic(root *cobra.Command, args []string) error {
	_, rest, err := root.Find(args)
	if err == nil && len(rest) == 0 {
		return nil
	}
	var names []string
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			names = append(append(names, cmd.Name()), cmd.Aliases...)
		}
	}
	return cli.UsageHint(cli.DidYouMean(args[0], names, "mcptrack --help lists the commands and topics"),
		"unknown help topic %q", printable.Line(cli.Join(args, 5), 100))
}

func finishCompletion(completion *cobra.Command) {
	completion.Example = `  source <(mcptrack completion bash)
  mcptrack completion fish >~/.config/fish/completions/mcptrack.fish`
	completion.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		shells := []string{"bash", "zsh", "fish", "powershell"}
		return cli.UsageHint(cli.DidYouMean(args[0], shells, ""), "unknown shell %q; choose bash, zsh, fish or powershell", printable.Line(args[0], 60))
	}
	completion.RunE = func(*cobra.Command, []string) error {
		return cli.Usage("no shell given; choose bash, zsh, fish or powershell")
	}
	for _, shell := range completion.Commands() {
		shell.Args = cli.Args(0, 0)
		shell.Example = map[string]string{
			"bash":       "  source <(mcptrack completion bash)\n  mcptrack completion bash >/etc/bash_completion.d/mcptrack",
			"zsh":        "  source <(mcptrack completion zsh)\n  mcptrack completion zsh >\"${fpath[1]}/_mcptrack\"",
			"fish":       "  mcptrack completion fish | source\n  mcptrack completion fish >~/.config/fish/completions/mcptrack.fish",
			"powershell": "  mcptrack completion powershell | Out-String | Invoke-Expression\n  mcptrack completion powershell >mcptrack.ps1",
		}[shell.Name()]
	}
}

// namesPath returns the path of the file with the cached names of a config's servers, or "" if
// names are not cached.
func namesPath(env *cli.Env, cfgPath string) string {
	dir := env.CacheDir()
	abs, err := filepath.Abs(cfgPath)
	if dir == "" || cfgPath == "" || err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(dir, "catalog-"+hex.EncodeToString(sum[:8])+".json")
}

func loadNames(env *cli.Env, cfgPath string) completion.Names {
	return completion.Load(namesPath(env, cfgPath))
}

// remember calls change to modify the cached names of a config's servers.
func remember(env *cli.Env, cfgPath string, change func(completion.Names)) {
	completion.Update(namesPath(env, cfgPath), change)
}

// rememberSnapshot caches the lists in a tracker's last snapshot.
func rememberSnapshot(env *cli.Env, cfgPath string, snap *status.Snapshot) {
	remember(env, cfgPath, func(n completion.Names) {
		for _, srv := range snap.Servers {
			for kind, list := range srv.Lists {
				n.Learn(srv.ID, kind, list)
			}
		}
	})
}

func completeList(env *cli.Env, g *cli.Globals) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		names := cli.ServerNames(cli.ConfigForCompletion(env, g))
		if len(args) == 0 {
			names = append(listKinds(), names...)
		}
		return cli.Choices(names, args)
	}
}

// namesFor returns the names of a server's items for completion: the cached names, or with --demo
// those that the built-in server lists. An empty kind means all kinds.
func namesFor(env *cli.Env, g *cli.Globals, cfg *config.Config, id string, kind catalog.Kind) completion.ServerNames {
	if !g.Demo() {
		return loadNames(env, cfg.Path)[id]
	}
	names := completion.Names{}
	ctx, cancel := context.WithTimeout(context.Background(), askingTime)
	defer cancel()
	kinds := []catalog.Kind{kind}
	if kind == "" {
		kinds = catalog.Kinds()
	}
	for _, r := range session.Probe(ctx, cfg.Servers, session.ProbeOptions{Dial: env.Dial, Session: session.Options{ClientVersion: env.Version, ConnectTimeout: askingTime, OneShot: true, Environ: env.LookupEnv}, Kinds: kinds}) {
		for _, k := range kinds {
			names.Learn(r.Server.ID, k, r.Lists[k])
		}
	}
	return names[id]
}

// completeItems completes a server id, and then an item name of the server.
func completeItems(env *cli.Env, g *cli.Globals, kind catalog.Kind) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		cfg := cli.ConfigForCompletion(env, g)
		if len(args) == 0 {
			return cli.Choices(cli.ServerNames(cfg), nil)
		}
		return cli.Choices(namesFor(env, g, cfg, args[0], kind).Names[kind], args[1:])
	}
}

// completeVersioned completes a server id, and then an item of the server that has a history.
func completeVersioned(env *cli.Env, g *cli.Globals) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		cfg := cli.ConfigForCompletion(env, g)
		if len(args) == 0 {
			return cli.Choices(cli.ServerNames(cfg), nil)
		} else if len(args) > 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		known := namesFor(env, g, cfg, args[0], "").Names
		items := append([]string{string(lock.SectionInstructions)}, known[catalog.Resources]...)
		for _, kind := range catalog.Kinds() {
			prefix := lock.Name(lock.Section(kind), "")
			if kind == catalog.Resources && !strings.HasPrefix(typed, prefix) {
				continue // the content of a resource is meant more often
			}
			for _, key := range known[kind] {
				items = append(items, prefix+key)
			}
		}
		return cli.Choices(items, nil)
	}
}

// completeNames completes a flag with item names of the server in args.
func completeNames(env *cli.Env, g *cli.Globals, kind catalog.Kind) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		out, _ := cli.Choices(namesFor(env, g, cli.ConfigForCompletion(env, g), args[0], kind).Names[kind], nil)
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// noFiles disables file name completion, which is cobra's default, for arguments and flags that are
// not file names.
func noFiles(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			_, chosen := cmd.GetFlagCompletionFunc(f.Name)
			if kind, _ := pflag.UnquoteUsage(f); !chosen && f.NoOptDefVal == "" && kind != "FILE" && kind != "DIR" {
				_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions)
			}
		})
	}
}

// completeArguments completes --arg of prompt and call with what the server listed for the prompt or tool.
func completeArguments(env *cli.Env, g *cli.Globals, kind catalog.Kind, given *[]string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) < 2 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return completeArgument(namesFor(env, g, cli.ConfigForCompletion(env, g), args[0], kind).Arguments[kind][args[1]], typed, *given)
	}
}

// completeParameter completes --param of read with the variables of the template.
func completeParameter(opts *readOptions) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		variables, _ := uritemplate.Variables(opts.template) // a malformed one has none
		for i := range variables {
			variables[i] += "="
		}
		return completeArgument(variables, typed, opts.params)
	}
}

// completeArgument completes NAME=VALUE: the name, unless it was already given, and then a value that is known.
func completeArgument(begins []string, typed string, given []string) ([]string, cobra.ShellCompDirective) {
	name, _, hasName := strings.Cut(typed, "=")
	var fitting []string
	for _, b := range begins {
		of, v, _ := strings.Cut(b, "=")
		taken := slices.ContainsFunc(given, func(g string) bool { return strings.HasPrefix(g, of+"=") })
		if hasName && of == name && v != "" || !hasName && v == "" && !taken {
			fitting = append(fitting, b)
		}
	}
	out, directive := cli.Choices(fitting, nil)
	if !hasName {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return out, directive
}

// askingTime limits how long completion waits for the built-in server.
const askingTime = 800 * time.Millisecond
