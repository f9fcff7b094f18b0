package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// mustRun runs mcptrack, which must succeed.
func (a *account) mustRun(args ...string) string {
	a.Helper()
	out, err := a.run(args...)
	if err != nil {
		a.Fatal(err)
	}
	return out
}

// The official TypeScript client sees of a server in Codex's config the same through mcptrack-attach as
// directly, in both eras, and the tools for clients that declare more.
func TestRealConnectedServersAnswerAsBefore(t *testing.T) {
	t.Parallel()
	type request = map[string]any
	requests := []request{
		{"tool": "echo", "arguments": request{"message": "<ünï & code>\n"}},
		{"tool": "get-sum", "arguments": request{"a": "no number"}},
		{"tool": "get-tiny-image"},
		{"tool": "get-resource-links", "arguments": request{"count": 3}},
		{"tool": "trigger-long-running-operation", "arguments": request{"duration": 1, "steps": 4}},
		{"prompt": "args-prompt", "arguments": request{"city": "Paris"}},
		{"read": "demo://resource/static/document/features.md"},
		{"read": "demo://resource/none"},
	}
	a := newAccount(t)
	var everything peerEntry
	unmarshalPeer(t, []byte(startPeer(t, "everything-stdio").Config), &everything)
	server := append([]string{everything.Command}, everything.Args...)
	args, err := json.Marshal(everything.Args)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(a.dir, ".codex", "config.toml")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("model = \"o\" # mine\n\n[mcp_servers.everything]\ncommand = %q\nargs = %s\nenv = { %s = %q } # its mark\n", everything.Command, args, peerMark, a.dir)
	save(t, file, before)
	a.mustRun("connect", "codex", "--yes")
	connected, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`command = "(.*mcptrack-attach)"\nargs = (\[.*\])`).FindSubmatch(connected)
	if found == nil {
		t.Fatalf("connect wrote\n%s", connected)
	}
	var through []string
	unmarshalPeer(t, found[2], &through)
	moved := through[slices.Index(through, "--config")+1]
	entries, err := os.ReadFile(moved)
	if err != nil {
		t.Fatal(err)
	}
	save(t, moved, strings.Replace(string(entries), `"id": "everything"`, `"id": "everything", "connectTimeout": "`+peerStarts+`"`, 1))

	want := lookAt(t, "legacy", requests, server...)
	for _, era := range []string{"legacy", "modern"} {
		got := lookFrom(t, a.env, era, requests, append([]string{string(found[1])}, through...)...)
		names := map[any]bool{}
		for _, tool := range want.Tools {
			names[tool["name"]] = true
		}
		got.Tools = slices.DeleteFunc(got.Tools, func(tool map[string]any) bool { return !names[tool["name"]] })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: directly (-), through mcptrack-attach (+)\n%s", era, diff)
		}
	}
	if status := a.mustRun("daemon", "status"); strings.Count(status, "everything") != 1 {
		t.Errorf("the servers of the daemon:\n%s", status)
	}
	a.mustRun("connect", "--undo", "codex")
	if after, err := os.ReadFile(file); string(after) != before {
		t.Errorf("%v; disconnect wrote\n%s", err, after)
	}
}

// Claude Code connects to a server of its .mcp.json through mcptrack-attach, and disconnect brings the file
// back byte for byte.
func TestRealClaudeCodeUsesConnectedServers(t *testing.T) {
	t.Parallel()
	programs, err := filepath.Glob(filepath.Join(peertest.Path(t, "node_modules", "@anthropic-ai"), "claude-code-linux-*", "claude"))
	if err != nil || len(programs) == 0 {
		programs = []string{peertest.Path(t, "node_modules", "@anthropic-ai", "claude-code-linux-x64", "claude")}
	}
	claude := programs[0]
	a := newAccount(t)
	if err := os.Remove(a.config); err != nil {
		t.Fatal(err)
	}
	// A project's servers need the user's approval.
	if err := os.Mkdir(filepath.Join(a.dir, ".claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(a.dir, ".claude", "settings.json"), `{"enableAllProjectMcpServers": true}`)
	file := filepath.Join(a.dir, ".mcp.json")
	before := "{\n\t\"mcpServers\": {\"counted\": " + a.entry("counted-server", a.counted) + "}\n}"
	save(t, file, before)
	list := func() string {
		cmd := exec.CommandContext(t.Context(), claude, "mcp", "list")
		cmd.Dir, cmd.Env = a.dir, append(a.env, "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
		out, err := cmd.CombinedOutput()
		return fmt.Sprintf("%s%v", out, err)
	}
	if got := list(); !strings.Contains(got, "Connected") {
		t.Fatalf("directly: %s", got)
	}
	a.mustRun("connect", "claude-code", "--yes")
	if got := list(); !strings.Contains(got, "counted: mcptrack-attach") || !strings.Contains(got, "Connected") {
		t.Errorf("connected: %s", got)
	}
	if len(a.ofKind("daemon")) != 1 || len(a.ofKind("counted")) != 1 {
		t.Errorf("running: %+v", a.processes())
	}
	a.mustRun("connect", "--undo", "claude-code")
	if after, err := os.ReadFile(file); string(after) != before {
		t.Errorf("%v; disconnect wrote\n%s", err, after)
	}
}
