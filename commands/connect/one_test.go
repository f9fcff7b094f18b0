package connect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon"
)

// Entries that run the same become one server, whatever hosts call it and in whatever form they write it, unless
// an entry says that it is shared otherwise;
// each host keeps its own name, and disconnect restores each file.
func TestEqualEntries(t *testing.T) {
	m := newMachine(t)
	before := map[string]string{
		".claude.json":                      `{"mcpServers": {"memory": {"type": "stdio", "command": "sh", "args": ["-c", "x"], "env": {}}}}`,
		".codeium/windsurf/mcp_config.json": `{"mcpServers": {"memory-windsurf": {"command": "sh", "args": ["-c", "x"]}, "web": {"command": "sh", "args": ["-c", "x"], "env": {"A": "b"}}, "apart": {"command": "sh", "args": ["-c", "x"], "shared": false}}}`,
		".config/zed/settings.json":         `{"context_servers": {"memory-zed": {"command": {"path": "sh", "args": ["-c", "x"]}}}}`,
		".config/opencode/opencode.json":    `{"mcp": {"memory": {"type": "local", "command": ["sh", "-c", "x"]}, "web": {"type": "remote", "url": "https://example.com/mcp"}}}`,
	}
	for file, content := range before {
		m.put(t, m.file(file), content)
	}
	m.run(t, 0, "connect --yes")
	cfg, problems := config.Load(m.own(), config.Options{})
	if cfg == nil || len(cfg.Servers) != 4 {
		t.Fatalf("%v\n%s", problems, text(t, m.own()))
	}
	var ids []string
	for file, names := range map[string]string{".claude.json": "memory", ".codeium/windsurf/mcp_config.json": "memory-windsurf", ".config/zed/settings.json": "memory-zed", ".config/opencode/opencode.json": "memory"} {
		args := server(t, m.file(file), names).Args
		ids = append(ids, args[len(args)-1])
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != 1 {
		t.Errorf("%q", ids)
	}
	var doc struct {
		Summary struct{ Hosts, Servers, Programs, Instead int }
	}
	if err := json.Unmarshal([]byte(m.run(t, 0, "connect --json")), &doc); err != nil {
		t.Fatal(err)
	}
	if s := doc.Summary; s.Hosts != 4 || s.Servers != 6 || s.Programs != 3 || s.Instead != 6 {
		t.Errorf("%+v", s)
	}
	m.run(t, 0, "connect --undo")
	for file, content := range before {
		if got := text(t, m.file(file)); got != content {
			t.Errorf("%s: %s", file, got)
		}
	}
}

// An entry that was renamed keeps its server, also when the other entries that run it are restored.
func TestRenamedEntryKeepsItsServer(t *testing.T) {
	for _, renamed := range []string{".claude.json", ".cursor/mcp.json"} { // restored before or after the other
		m := newMachine(t)
		for _, file := range []string{".claude.json", ".cursor/mcp.json"} {
			m.put(t, m.file(file), `{"mcpServers": {"one": {"command": "sh"}, "two": {"command": "sh"}}}`)
		}
		m.run(t, 0, "connect --yes")
		m.put(t, m.file(renamed), strings.Replace(text(t, m.file(renamed)), `"two":`, `"three":`, 1))
		m.run(t, 0, "connect --undo claude-code")
		m.run(t, 0, "connect --undo cursor")
		server(t, m.own(), "one")
	}
}

// A server that keeps something for one session gets "shared": false, with the reason, if its package says so,
// or if the daemon has seen it; what the user has set stays.
func TestServersThatAreNotShared(t *testing.T) {
	m := newMachine(t)
	path := m.file(".cursor/mcp.json")
	m.put(t, path, `{"mcpServers": {"web": {"command": "sh", "args": ["-c", "npx @playwright/mcp@latest"]}, "said": {"command": "sh", "args": ["-c", "npx puppeteer-mcp-server"], "shared": "machine"},
		"mine": {"command": "sh", "args": ["-c", "npx chrome-devtools-mcp"]}, "seen": {"command": "sh", "args": ["-c", "s"]}, "plain": {"command": "sh"}}}`)
	m.put(t, m.file(".gemini/settings.json"), `{"mcpServers": {"web2": {"command": "sh", "args": ["-c", "npx @playwright/mcp@latest"]}}}`)
	m.put(t, m.own(), `{"servers": [{"id": "mine", "command": "sh", "args": ["-c", "npx chrome-devtools-mcp"], "shared": true}]}`)
	needsOne, err := daemon.ReadOneEach(filepath.Join(m.env.DaemonDir(), daemon.OneEachFile))
	if err == nil {
		err = os.MkdirAll(m.env.DaemonDir(), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	asks := config.Stdio("seen", "sh", "-c", "s")
	if err := needsOne.Add(&asks); err != nil {
		t.Fatal(err)
	}
	out := m.run(t, 0, "connect --yes")
	for id, want := range map[string]config.Sharing{"web": config.NotShared, "said": config.SharedByMachine, "mine": "", "seen": config.NotShared, "plain": ""} {
		if got := server(t, m.own(), id).Sharing; got != want {
			t.Errorf("%s: shared %q, want %q", id, got, want)
		}
		if said := strings.Contains(out, id+` gets "shared": false`); said != (want == config.NotShared) {
			t.Errorf("%s: said %t\n%s", id, said, out)
		}
	}
	if !strings.Contains(out, "2 hosts, 6 servers: 6 programs, as many as without the daemon\n") { // each session has its own browser
		t.Error(out)
	}
}
