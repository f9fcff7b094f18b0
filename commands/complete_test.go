package commands

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
)

// Names of arguments, and values that a schema lists, come from the last list. No server is asked.
func TestCompleteArguments(t *testing.T) {
	tool := map[string]any{"name": "convert", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{
		"unit": map[string]any{"type": "string", "enum": []string{"metric", "imperial"}}, "round": map[string]any{"type": "boolean"}, "amount": map[string]any{"type": "number"}}}}
	prompt := map[string]any{"name": "weather", "arguments": []any{map[string]any{"name": "city"}, map[string]any{"name": "day"}, map[string]any{"name": "evil\x1b="}}}
	b := clitest.New(t, Main)
	b.Server.SetList(catalog.Tools, tool)
	b.Server.SetList(catalog.Prompts, prompt)
	complete := func(args ...string) []string {
		t.Helper()
		_, out := b.Run(t, append([]string{"__complete"}, args...)...)
		var values []string
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, ":") {
				values = append(values, strings.TrimSuffix(line, "\n"))
			}
		}
		return values
	}
	if got := complete("prompt", "notes", "weather", "--arg", "city=Ha"); len(got) != 0 || b.Dials != 0 {
		t.Fatalf("%q offered, %d dials, before anything was used", got, b.Dials)
	}
	if code, _ := b.Run(t, "list", "prompts"); code != 0 {
		t.Fatalf("list: exit %d: %s", code, &b.Stderr)
	}
	if code, _ := b.Run(t, "list", "tools"); code != 0 {
		t.Fatalf("list: exit %d: %s", code, &b.Stderr)
	}
	dials := b.Dials
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"call", "notes", "convert", "--arg", ""}, []string{"amount=", "round=", "unit="}},
		{[]string{"call", "notes", "convert", "--arg", "amount=1", "--arg", ""}, []string{"round=", "unit="}},
		{[]string{"call", "notes", "convert", "--arg", "unit="}, []string{"unit=metric", "unit=imperial"}},
		{[]string{"call", "notes", "convert", "--arg", "round="}, []string{"round=true", "round=false"}},
		{[]string{"prompt", "notes", "weather", "--arg", ""}, []string{"city=", "day="}},
		{[]string{"read", "notes", "--template", "note:///{year}/{name}", "--param", ""}, []string{"year=", "name="}},
	} {
		if got := complete(c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%q offers %q, want %q", c.args, got, c.want)
		}
	}
	if b.Dials != dials {
		t.Errorf("names were asked of the server %d times", b.Dials-dials)
	}
}

// TestCompleteDemo: with --demo names are asked of the built-in server, and nothing is cached.
func TestCompleteDemo(t *testing.T) {
	b := clitest.New(t, Main)
	b.Server.SetList(catalog.Tools, map[string]any{"name": "append", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}}})
	b.Server.SetQuietly("note:///a", "text")
	b.Server.SetList(catalog.Prompts, map[string]any{"name": "summarize", "arguments": []any{map[string]any{"name": "note"}}})
	for line, want := range map[string]string{
		"list --demo":                        "demo",
		"watch --demo":                       "demo",
		"watch --demo --server":              "demo",
		"read --demo":                        "demo",
		"call --demo demo":                   "append",
		"call demo --demo":                   "append",
		"call --demo demo append --arg":      "text=",
		"prompt --demo demo":                 "summarize",
		"prompt --demo demo summarize --arg": "note=",
		"call --demo other":                  ":4",
		"read --demo demo":                   "note:///a",
	} {
		code, out := b.Run(t, append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if !slices.Contains(strings.Fields(out), want) || code != 0 {
			t.Errorf("%s: exit %d, %q, want %q; %s", line, code, out, want, &b.Stderr)
		}
	}
}

// TestCompletesFilesOnly: files are offered where a file is expected, and nowhere else.
func TestCompletesFilesOnly(t *testing.T) {
	b := clitest.New(t, Main)
	for line, want := range map[string]string{
		"status": ":4", "tail": ":4", "serve-sse": ":4", "gateway": ":4", "replay": ":4", "top": ":4", "version": ":4",
		"gateway --allow": ":4", "vault --ignore": ":4", "tail --since": ":4", "serve-sse --nats": ":4",
		"gateway --token-file": ":0", "gateway --nats-credentials": ":0", "inject --api-key-file": ":0", "read --out": ":0",
		"serve-sse --data-dir": ":16", "vault": ":16", "gateway --events": ":4",
	} {
		_, out := b.Run(t, append(append([]string{"__complete"}, strings.Fields(line)...), "")...)
		if lines := strings.Fields(out); len(lines) == 0 || lines[len(lines)-1] != want {
			t.Errorf("%s: %q, want %s", line, out, want)
		}
	}
}
