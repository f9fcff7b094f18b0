package lock_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/lock"
)

func described(name, description string) map[string]any {
	return map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}}
}

// Names and texts of servers cannot break out of any output format.
func TestHostileNames(t *testing.T) {
	names := []string{
		"a\nb", "a\rb", "a\tb", "\x1b[31mred\x1b[0m", "\x1b]8;;https://evil.net\x1b\\link", "\u202eevil", "a\u2028b", "\u0085", "\ufeffbom", "__proto__", "a|b", "`code`", "@octocat", "#1",
		"[link](https://evil.net)", "![image](https://evil.net/x.png)", "<img src=x onerror=alert(1)>", "<!-- -->", "```\n# head", "]]>", "::error::evil", "##[error]evil", "%0Aevil", "=cmd()", "../../etc/passwd",
	}
	b := clitest.New(t, commands.Main)
	b.Server.SetList(catalog.Tools, described("good", "Digs."))
	b.Server.SetList(catalog.Prompts, map[string]any{"name": "good"})
	if code, out := b.Run(t, "lock"); code != cli.ExitOK {
		t.Fatalf("exit %d: %s%s", code, out, b.Stderr.String())
	}
	var tools, prompts, resources []any
	for i, name := range names {
		tools = append(tools, described(name, name))
		prompts = append(prompts, map[string]any{"name": name, "description": name})
		resources = append(resources, map[string]any{"uri": fmt.Sprintf("x://%d/%s", i, name), "name": name})
	}
	b.Server.SetList(catalog.Tools, tools...)
	b.Server.SetList(catalog.Prompts, prompts...)
	b.Server.SetList(catalog.Resources, resources...)
	for _, args := range [][]string{{"verify"}, {"verify", "--json"}, {"verify", "-o", "name"}, {"verify", "-o", "sarif"}, {"verify", "-o", "markdown"}, {"review"}, {"review", "--json"}, {"reject", "notes"}, {"lock", "--update"}} {
		code, out := b.Run(t, args...)
		if code != 7 && args[0] != "reject" {
			t.Errorf("%s: exit %d", args, code)
		}
		for line := range strings.SplitSeq(out+b.Stderr.String(), "\n") {
			for _, r := range line {
				if r != '\t' && unicode.IsControl(r) || r == '\u202e' || r == '\u2028' || r == '\ufeff' || r == unicode.ReplacementChar {
					t.Fatalf("%s: %U in %q", args, r, line)
				}
			}
			if strings.HasPrefix(line, "::") || strings.HasPrefix(line, "##[") {
				t.Errorf("%s: a command for a runner: %s", args, line)
			}
		}
		switch format := args[len(args)-1]; format {
		case "--json", "sarif":
			if !json.Valid([]byte(out)) {
				t.Errorf("%s is not JSON", args)
			}
		case "markdown":
			prose := outsideOfCode(out)
			for _, special := range []string{"@octocat", "https://", "](", "<img", "# head", "onerror", "|b", "__proto__"} {
				if strings.Contains(prose, special) {
					t.Errorf("%s: %q is not in code:\n%s", args, special, prose)
				}
			}
		}
	}
}

// outsideOfCode returns Markdown without blocks and spans of code.
func outsideOfCode(text string) string {
	var out strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		ticks := len(line) - len(strings.TrimLeft(line, "`"))
		switch {
		case fence != "":
			if strings.TrimSpace(line) == fence {
				fence = ""
			}
			continue
		case ticks >= 3 && !strings.Contains(line[ticks:], "`"):
			fence = line[:ticks]
			continue
		}
		for line != "" {
			before, rest, found := strings.Cut(line, "`")
			out.WriteString(before)
			if !found {
				break
			}
			ticks := 1 + len(rest) - len(strings.TrimLeft(rest, "`"))
			line = rest[ticks-1:]
			if end := closing(line, ticks); end >= 0 {
				line = line[end+ticks:]
			}
		}
	}
	return out.String()
}

// closing returns the index of the first run of exactly n backticks, or -1.
func closing(s string, n int) int {
	for i := 0; i < len(s); i++ {
		run := len(s[i:]) - len(strings.TrimLeft(s[i:], "`"))
		if run == n {
			return i
		}
		i += max(run-1, 0)
	}
	return -1
}

// What lock --update and approve take over concurrently is all in the lock.
func TestConcurrentUpdates(t *testing.T) {
	config := filepath.Join(t.TempDir(), "mcp-servers.json")
	if err := os.WriteFile(config, []byte(`{"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const tools = 6
	set := func(b *clitest.Bench, description, title string) {
		var all []any
		for i := range tools {
			it := described(fmt.Sprintf("tool-%d", i), "Digs.")
			if i%2 == 0 {
				it["description"] = description
			} else {
				it["title"] = title
			}
			all = append(all, it)
		}
		b.Server.SetList(catalog.Tools, all...)
	}
	bench := func() *clitest.Bench {
		b := clitest.New(t, commands.Main, "MCPTRACK_CONFIG="+config)
		set(b, "Digs holes.", "New")
		return b
	}
	first := bench()
	set(first, "Digs.", "Old")
	if code, out := first.Run(t, "lock"); code != cli.ExitOK {
		t.Fatalf("exit %d: %s%s", code, out, first.Stderr.String())
	}
	var running sync.WaitGroup
	for i := range tools {
		b, args := bench(), []string{"approve", fmt.Sprintf("notes:tool/tool-%d", i)}
		if i%2 == 0 {
			args = []string{"lock", "--update", "--class", "wording"}
		}
		running.Go(func() {
			if code, out := b.Run(t, args...); code != cli.ExitOK && code != 7 {
				t.Errorf("%s: exit %d: %s%s", args, code, out, b.Stderr.String())
			}
		})
	}
	running.Wait()
	if code, out := bench().Run(t, "verify"); code != cli.ExitOK {
		t.Errorf("exit %d: %s", code, out)
	}
	if _, err := lock.Read(filepath.Join(filepath.Dir(config), "mcptrack.lock")); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(config)); err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}
