package commands

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
)

// Every command that can be run shows two examples and its exit codes.
func TestHelpIsComplete(t *testing.T) {
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if !cmd.Runnable() || !cmd.HasParent() {
			return
		}
		seen++
		if n := strings.Count(cmd.Example, "mcptrack "); n < 2 {
			t.Errorf("%s: %d examples", cmd.CommandPath(), n)
		}
		if !strings.Contains(cmd.Long, "Exit codes: 0 ") {
			t.Errorf("%s: its help lists no exit codes", cmd.CommandPath())
		}
	}
	root, _ := Tree(&cli.Env{})
	walk(root)
	if seen < 20 {
		t.Errorf("only %d commands", seen)
	}
}
