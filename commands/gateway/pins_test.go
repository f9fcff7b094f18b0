package gateway_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
)

// gateway --pin drops a tool that changed since it was first listed, even after restarts, with and without
// --events; --repin accepts the change.
func TestGatewayPins(t *testing.T) {
	for name, dir := range map[string]string{"state directory": "", "data directory": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			b := clitest.New(t, commands.Main, "XDG_STATE_HOME="+state)
			args := func(more ...string) []string {
				if dir != "" {
					more = append(more, "--data-dir", dir)
				}
				return append([]string{"gateway"}, more...)
			}
			listed := func(want string, more ...string) {
				t.Helper()
				b.In = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
`)
				code, out := b.Run(t, args(append(more, "--all", "--stdio")...)...)
				var names []string
				for _, name := range []string{"dig", "rake"} {
					if strings.Contains(out, `"name":"`+name+`"`) {
						names = append(names, name)
					}
				}
				if got := strings.Join(names, " "); code != cli.ExitOK || got != want || !strings.Contains(out, `"tools":[`) {
					t.Errorf("exit %d, it lists %q, want %q: %s%s", code, got, want, out, b.Stderr.String())
				}
			}
			set := func(description string) {
				var tools []any
				for _, name := range []string{"dig", "rake"} {
					tools = append(tools, map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}})
				}
				b.Server.SetList(catalog.Tools, tools...)
			}
			set("one")
			listed("dig rake", "--pin")
			set("two")
			listed("", "--pin")
			if text := b.Stderr.String(); !strings.Contains(text, "item=dig") || !strings.Contains(text, "has changed since it was first listed") {
				t.Error(text)
			}
			listed("", "--pin", "--events")
			if dir == "" { // without --pin nothing is pinned; a directory would be an error
				listed("dig rake")
			}
			if code, _ := b.Run(t, args("--repin", "notes:dig")...); code != cli.ExitOK || b.Stderr.String() != "notes:dig: 1 pin removed\n" {
				t.Errorf("exit %d: %s", code, b.Stderr.String())
			}
			listed("dig", "--pin")
			for name, want := range map[string]int{"notes:none": cli.ExitRefused, "nobody:dig": cli.ExitUsage} {
				if code, _ := b.Run(t, args("--repin", name)...); code != want {
					t.Errorf("%s: exit %d, want %d: %s", name, code, want, b.Stderr.String())
				}
			}
			if code, _ := b.Run(t, args("--repin", "notes")...); code != cli.ExitOK || b.Stderr.String() != "notes: 2 pins removed\n" {
				t.Errorf("exit %d: %s", code, b.Stderr.String())
			}
			listed("dig rake", "--pin")
			place := filepath.Join(state, "mcptrack")
			if dir != "" {
				place = dir
			}
			if files, _ := filepath.Glob(filepath.Join(place, "gateway-pins", "*.json")); len(files) != 1 {
				t.Errorf("in %s are %q", place, files)
			}
		})
	}
	b := clitest.New(t, commands.Main)
	if code, _ := b.Run(t, "gateway", "--pin", "--stdio"); code != cli.ExitUsage || !strings.Contains(b.Stderr.String(), "--data-dir") {
		t.Errorf("without a state directory: exit %d: %s", code, b.Stderr.String())
	}
}
