package commands

import (
	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/printable"
)

// finishBuiltins gives cobra's own commands, help and completion, what every other command has:
// examples, exit codes, and an error for an unknown name, for which cobra would print help and
// succeed.
func finishBuiltins(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Long += "\n\n" + builtinExits
			cmd.Example = `  mcptrack help watch
  mcptrack help exit-codes`
			cmd.Args = func(_ *cobra.Command, args []string) error { return knownTopic(root, args) }
		case "completion":
			finishCompletion(cmd)
		}
	}
}

const builtinExits = "Exit codes: 0 done; 1 failed; 2 wrong usage."

// knownTopic returns an error unless args name a command or a help topic.
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
	return usageHint(didYouMean(args[0], names, "mcptrack --help lists the commands and topics"),
		"unknown help topic %q", printable.Line(join(args, 5), 100))
}

func finishCompletion(completion *cobra.Command) {
	completion.Long += "\n" + builtinExits
	completion.Example = `  source <(mcptrack completion bash)
  mcptrack completion fish >~/.config/fish/completions/mcptrack.fish`
	completion.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		shells := []string{"bash", "zsh", "fish", "powershell"}
		return usageHint(didYouMean(args[0], shells, ""), "unknown shell %q; choose bash, zsh, fish or powershell", printable.Line(args[0], 60))
	}
	completion.RunE = func(*cobra.Command, []string) error {
		return usage("no shell given; choose bash, zsh, fish or powershell")
	}
	for _, shell := range completion.Commands() {
		shell.Long += "\n" + builtinExits
		shell.Args = arguments(0, 0)
		switch shell.Name() {
		case "bash":
			shell.Example = `  source <(mcptrack completion bash)
  mcptrack completion bash >/etc/bash_completion.d/mcptrack`
		case "zsh":
			shell.Example = `  source <(mcptrack completion zsh)
  mcptrack completion zsh >"${fpath[1]}/_mcptrack"`
		case "fish":
			shell.Example = `  mcptrack completion fish | source
  mcptrack completion fish >~/.config/fish/completions/mcptrack.fish`
		case "powershell":
			shell.Example = `  mcptrack completion powershell | Out-String | Invoke-Expression
  mcptrack completion powershell >mcptrack.ps1`
		}
	}
}
