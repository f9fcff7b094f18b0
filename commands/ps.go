package commands

import (
	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/daemon"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
)

// newPS returns daemon ps under its older name.
func newPS(env *cli.Env, g *cli.Globals) *cobra.Command { return daemon.PSCommand(env, g) }
