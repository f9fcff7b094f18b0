package config

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/mcptrack/mcptrack/core/config/hosts"
)

// TestFind creates the files in reverse order: each new one must be preferred to the earlier ones.
func TestFind(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the folder of the user is elsewhere")
	}
	workspace, home := t.TempDir(), t.TempDir()
	variables := map[string]string{}
	opts := Options{Workspace: workspace, UserHome: home,
		Getenv: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }}
	if path, ok := Find(opts); ok {
		t.Fatalf("found %s in empty folders", path)
	}
	expect := func(want string) {
		t.Helper()
		if path, ok := Find(opts); !ok || path != want {
			t.Errorf("%q, %t; want %s", path, ok, want)
		}
	}
	user := filepath.Join(home, ".config")
	if runtime.GOOS == "darwin" {
		user = filepath.Join(home, "Library", "Application Support")
	}
	expect(write(t, filepath.Join(user, "mcptrack", "mcp-servers.json"), "{}"))
	if runtime.GOOS != "darwin" {
		variables["XDG_CONFIG_HOME"] = t.TempDir()
		expect(write(t, filepath.Join(variables["XDG_CONFIG_HOME"], "mcptrack", "mcp-servers.json"), "{}"))
	}
	for _, name := range []string{".vscode/mcp.json", ".cursor/mcp.json", ".mcp.json", "mcp-servers.json", "config/mcp-servers.json"} {
		expect(write(t, filepath.Join(workspace, name), "{}"))
	}
	variables["MCPTRACK_CONFIG"] = "named-but-missing.json"
	expect("named-but-missing.json")
}

// If a variable moves the files of a host, its config is found only there.
func TestMovedHosts(t *testing.T) {
	home := t.TempDir()
	variables := map[string]string{}
	opts := Options{Workspace: t.TempDir(), UserHome: home, Getenv: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }}
	for variable, test := range map[string]struct{ host, usual, text string }{
		"CODEX_HOME":        {"codex", ".codex/config.toml", "[mcp_servers.a]\ncommand = \"go\"\n"},
		"KIMI_CODE_HOME":    {"kimi", ".kimi-code/mcp.json", `{"mcpServers": {"a": {"command": "go"}}}`},
		"VIBE_HOME":         {"mistral-vibe", ".vibe/config.toml", "[[mcp_servers]]\nname = \"a\"\ntransport = \"stdio\"\ncommand = \"go\"\n"},
		"CLAUDE_CONFIG_DIR": {"claude-code", ".claude.json", `{"mcpServers": {"a": {"command": "go"}}}`},
	} {
		host, _ := hosts.Find(test.host)
		moved := t.TempDir()
		usual := write(t, filepath.Join(home, filepath.FromSlash(test.usual)), test.text)
		if path, ok := FindHost(host, opts); !ok || path != usual {
			t.Errorf("%s: %s, %t", test.host, path, ok)
		}
		variables[variable] = moved
		if path, ok := FindHost(host, opts); ok {
			t.Errorf("%s: %s although it is moved", test.host, path)
		}
		there := write(t, filepath.Join(moved, filepath.Base(usual)), test.text)
		if path, ok := FindHost(host, opts); !ok || path != there {
			t.Errorf("%s moved: %s, %t", test.host, path, ok)
		}
		if files := HostFiles(opts, test.host); len(files) != 1 || files[0].Path != there {
			t.Errorf("%s: files %v", test.host, files)
		}
	}
}

func TestFindIgnoresDirectories(t *testing.T) {
	workspace := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(workspace, "mcp-servers.json"), 0o755))
	opts := Options{Workspace: workspace, UserHome: t.TempDir(), Getenv: func(string) (string, bool) { return "", false }}
	if path, ok := Find(opts); ok {
		t.Errorf("found %s", path)
	}
}

// In the working directory, the path is relative.
func TestFindIsRelative(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, ".mcp.json", "{}")
	path, ok := Find(Options{UserHome: t.TempDir(), Getenv: func(string) (string, bool) { return "", false }})
	if !ok || path != ".mcp.json" {
		t.Errorf("%q, %t", path, ok)
	}
}

// Continue reads all files of a folder. A warning names the ones that are not read.
func TestSiblingsAreNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".continue", "mcpServers")
	text := "mcpServers:\n  - {name: docs, command: go}\n"
	first := write(t, filepath.Join(dir, "a.yaml"), text)
	if c, problems := Load(first, surroundings(t, nil)); c == nil || len(problems) > 0 {
		t.Errorf("alone: %v", problems)
	}
	write(t, filepath.Join(dir, "b.yaml"), text)
	write(t, filepath.Join(dir, "notes.txt"), text)
	c, problems := Load(first, surroundings(t, nil))
	if c == nil || len(problems) != 1 || problems[0].Severity != SeverityWarning || problems[0].Message != `the servers in "b.yaml" are ignored: mcptrack reads only one config file` {
		t.Errorf("with another: %v", problems)
	}
}
