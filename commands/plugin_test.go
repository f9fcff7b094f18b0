package commands

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/peertest"
)

// pluginDir is the folder of the plugin for Claude Code, the source in marketplace.json. It contains
// nothing else, because Claude Code adds everything in folders with certain names, such as commands/.
var pluginDir = filepath.Join("..", ".claude-plugin", "mcptrack")

// Every command in the plugin is one of this program, and its monitor waits for its skill.
func TestPlugin(t *testing.T) {
	t.Parallel()
	var files, texts []string
	err := filepath.WalkDir(pluginDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(pluginDir, path)
		files, texts = append(files, filepath.ToSlash(name)), append(texts, string(text))
		return err
	})
	if want := []string{".claude-plugin/plugin.json", "monitors/monitors.json", "skills/follow/SKILL.md"}; err != nil || !slices.Equal(files, want) {
		t.Fatalf("%q, want %q: %v", files, want, err)
	}
	var market struct {
		Plugins []struct{ Name, Source string }
	}
	if data, err := os.ReadFile(filepath.Join("..", ".claude-plugin", "marketplace.json")); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(data, &market); err != nil || len(market.Plugins) != 1 || market.Plugins[0].Source != "./.claude-plugin/mcptrack" {
		t.Errorf("%+v: %v", market, err)
	}
	var monitors []struct{ Name, Command, When string }
	if err := json.Unmarshal([]byte(texts[1]), &monitors); err != nil || len(monitors) != 1 || monitors[0].When != "on-skill-invoke:follow" {
		// "always" would run the commands of a folder's config without a request
		t.Fatalf("%+v: %v", monitors, err)
	}

	// Every command that the skill names exists, with its flags.
	text := texts[2] + "`" + monitors[0].Command + "`"
	commands := regexp.MustCompile("`(mcptrack [^`]+)`").FindAllStringSubmatch(text, -1)
	if len(commands) < 4 {
		t.Errorf("%q", commands)
	}
	for _, match := range commands {
		words := strings.Fields(match[1])[1:]
		cmd, rest, err := newRoot(&cli.Env{}, &cli.Globals{}).Find(words)
		if err != nil || cmd.Parent() == nil {
			t.Errorf("%s: %v", match[1], err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", match[1], err)
		}
	}
}

// Claude Code itself says what the plugin adds: a skill and a monitor, and no slash commands,
// MCP servers or hooks.
func TestRealPluginAdds(t *testing.T) {
	t.Parallel()
	var out []byte
	for _, dir := range []string{"..", pluginDir} { // the marketplace, and the plugin
		claude := peertest.Script(t, filepath.Join("node_modules", "@anthropic-ai", "claude-code", "cli-wrapper.cjs"), "plugin", "validate", "--strict", "--json", dir)
		cmd := exec.CommandContext(t.Context(), claude[0], claude[1:]...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
		var err error
		if out, err = cmd.Output(); err != nil {
			t.Fatalf("%s: %v: %s", dir, err, out)
		}
	}
	var report struct {
		Provides map[string][]any `json:"provides"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Provides) < 6 { // all kinds are listed, even empty ones
		t.Errorf("%s", out)
	}
	want := map[string][]any{
		"skills":   {"mcptrack:follow"},
		"monitors": {map[string]any{"name": "changes", "command": "mcptrack watch --agent"}},
	}
	for kind, got := range report.Provides {
		if len(got)+len(want[kind]) > 0 && !reflect.DeepEqual(got, want[kind]) {
			t.Errorf("%s: %v, want %v", kind, got, want[kind])
		}
	}
}
