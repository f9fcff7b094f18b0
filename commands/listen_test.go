package commands

import (
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
)

// The names that other programs have for an address to listen on, and for hosts, lead to ours.
func TestNamesOfOtherPrograms(t *testing.T) {
	b := clitest.New(t, Main)
	for args, hint := range map[string]string{
		"serve-sse --port 1": "use --addr ", "gateway --listen :1": "use --addr ", "vault --bind 1 .": "use --addr ", "inject --port 3": "use --listen ",
		"serve-sse --host 0.0.0.0": "--addr is the address to listen on", "serve-sse --host localhost:80": "--addr is the address to listen on",
		"connect --port 3": "--port is a flag of login", "list --host claude": "choose claude-code or claude-desktop", "connect claude": "choose claude-code or claude-desktop",
		"init --from claude": "choose claude-code or claude-desktop", "list --host kursor": "did you mean cursor?",
	} {
		b.Stderr.Reset()
		if code, out := b.Run(t, strings.Fields(args)...); code != cli.ExitUsage || !strings.Contains(b.Stderr.String(), hint) {
			t.Errorf("%s: exit %d: %s%s", args, code, out, &b.Stderr)
		}
	}
	for _, args := range []string{"list --host Cursor", "list --host CODEX", "list --host claude_code", "list --host VS-Code", "init --dry-run --from Gemini", "connect --dry-run Cursor"} {
		b.Stderr.Reset()
		if code, out := b.Run(t, strings.Fields(args)...); code == cli.ExitUsage || strings.Contains(b.Stderr.String(), "unknown") {
			t.Errorf("%s: exit %d: %s%s", args, code, out, &b.Stderr)
		}
	}
}
