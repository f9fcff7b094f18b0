package commands

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
)

// Every help text fits a terminal of 80 columns, and every short help a screen. Every command shows two
// examples, and selects at most five flags for its short help.
func TestHelp(t *testing.T) {
	var out strings.Builder
	env := &cli.Env{Out: &out, Err: &out, LookupEnv: func(name string) (string, bool) { return "1", name == "NO_COLOR" }}
	pages := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.Hidden || cmd.Name() == "completion" || cmd.HasParent() && cmd.Parent().Name() == "completion" {
			return // cobra's own
		}
		args := []string{"help"}
		if cmd.HasParent() {
			args = append(args, strings.Fields(cmd.CommandPath())[1:]...)
		}
		out.Reset()
		if code := Main(t.Context(), env, args); code != cli.ExitOK {
			t.Fatalf("%q: exit %d: %s", args, code, out.String())
		}
		pages++
		if cmd.Runnable() && cmd.HasParent() && strings.Count(cmd.Example, "mcptrack ") < 2 {
			t.Errorf("%q has less than two examples", args)
		}
		if cmd.Runnable() && cmd.HasParent() {
			whole := out.String()
			out.Reset()
			if code := Main(t.Context(), env, append(args[1:], "-h")); code != cli.ExitOK {
				t.Fatalf("%q -h: exit %d: %s", args[1:], code, out.String())
			}
			if n := strings.Count(out.String(), "\n"); n > 32 || len(cli.MainFlagsOf(cmd)) > 5 || !strings.Contains(out.String(), "Usage:\n  "+cmd.CommandPath()) {
				t.Errorf("%q -h: %d lines, or more than five flags, or no usage line:\n%s", args[1:], n, out.String())
			}
			out.WriteString(whole)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%q: %d columns: %s", args, n, line)
			}
		}
	}
	root, _ := Tree(env)
	walk(root)
	if pages < 25 {
		t.Errorf("only %d pages", pages)
	}
}
