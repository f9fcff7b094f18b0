//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/peertest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// startGateway runs a gateway over HTTP in the background and returns its endpoint.
func startGateway(t *testing.T, args ...string) string {
	t.Helper()
	cmd := mcptrackCommand(context.Background(), append([]string{"gateway", "--addr", "127.0.0.1:0", "--wait", peerStarts}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		stderr.WriteString(lines.Text() + "\n")
		url, ok := strings.CutPrefix(lines.Text(), "listening on ")
		if !ok {
			continue
		}
		go func() { _, _ = io.Copy(io.Discard, errs) }() // ends with the process
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("gateway: %v", err)
			}
		})
		return url
	}
	t.Fatalf("it does not listen: %v\n%s", cmd.Wait(), &stderr)
	return ""
}

// peerScript runs a script of testdata/peers and returns what it printed.
func peerScript(t *testing.T, script string, args ...string) []byte {
	t.Helper()
	return peerScriptFrom(t, nil, script, args...)
}

// peerScriptFrom is like peerScript, with another environment unless env is nil.
func peerScriptFrom(t *testing.T, env []string, script string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := nodeCommand(ctx, t, script, args...)
	cmd.Env = env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(script), err, &stdout, &stderr)
	}
	return stdout.Bytes()
}

func nodeCommand(ctx context.Context, t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	command := peertest.Script(t, script, args...)
	return exec.CommandContext(ctx, command[0], command[1:]...)
}

// twoDemos returns a config of two identical servers.
func twoDemos(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "mcp-servers.json")
	on := `, "trackResources": true`
	save(t, file, config(`"a": `+demoEntry(t, markOf(t)+"-a", on), `"b": `+demoEntry(t, markOf(t)+"-b", on)))
	return file
}

// The gateway follows the config: clients are notified of a new server's tools, and an invalid config changes
// nothing.
func TestGatewayFollowsTheConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	on := `, "trackResources": true`
	a, b := `"a": `+demoEntry(t, markOf(t)+"-a", on), `"b": `+demoEntry(t, markOf(t)+"-b", on)
	save(t, file, config(a))
	self, err := json.Marshal(mcptrackPath(t))
	if err != nil {
		t.Fatal(err)
	}
	front := filepath.Join(t.TempDir(), "front.json")
	save(t, front, config(fmt.Sprintf(`"gw": {"command": %s, "args": ["gateway", "--stdio", "--config", %q], "trackResources": true}`, self, file)))
	r := runBeside(t, "watch", "--json", "--config", front)
	_, n := r.await(0, "ready", inState("gw", "Ready"))
	save(t, file, config(a, b))
	adds := func(tool string) func(eventLine) bool {
		return func(e eventLine) bool { return e.Type == "tools.list_changed" && slices.Contains(e.Added, tool) }
	}
	e, _ := r.await(n, "the new name of a's tool", adds("a_touch"))
	if !slices.Contains(e.Removed, "touch") {
		t.Errorf("%+v", e)
	}
	_, n = r.await(n, "the tools of b", adds("b_touch"))
	_, n = r.await(n, "an update of b", func(e eventLine) bool { return strings.HasPrefix(e.ResourceURI, "mcptrack://server/b/") })
	save(t, file, `{"mcpServers": {`)
	save(t, file, config(b))
	if e, _ = r.await(n, "the end of a", adds("touch")); !slices.Contains(e.Removed, "a_touch") || !slices.Contains(e.Removed, "b_touch") {
		t.Errorf("%+v", e)
	}
	r.signal(syscall.SIGTERM)
	r.ends(time.Minute, 0)
}

// A task belongs to the name of the token that started it, also after a gateway restart and with a new token of
// that name. For other tokens the task does not exist.
func TestGatewayTaskOwners(t *testing.T) {
	t.Parallel()
	server := sessiontest.New()
	server.Legacy, server.Modern = false, true
	server.SetList("tools", map[string]any{"name": "slow", "inputSchema": map[string]any{"type": "object"}})
	server.Capabilities["extensions"] = json.RawMessage(`{"io.modelcontextprotocol/tasks":{}}`)
	for method, result := range map[string]string{
		"tools/call": `{"resultType":"task","taskId":"t1","status":"working"}`, "tasks/get": `{"taskId":"t1","status":"working"}`, "tasks/cancel": `{}`,
	} {
		server.Fail(sessiontest.Fault{Method: method, Result: json.RawMessage(result)})
	}
	upstream := httptest.NewServer(server)
	defer upstream.Close()
	dir := t.TempDir()
	conf, tokens, data := filepath.Join(dir, "mcp-servers.json"), filepath.Join(dir, "tokens"), filepath.Join(dir, "data")
	save(t, conf, config(`"docs": {"type": "http", "url": "`+upstream.URL+`", "trackResources": true}`))
	const alice, bob, next = "alice-0123456789abcdef", "bob-0123456789abcdefgh", "next-0123456789abcdefg"
	send := func(url, token, method, name, params string) string {
		t.Helper()
		const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,`+meta+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + token},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}, "Mcp-Name": {name}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	var id string
	task := func(url, token, method string) string {
		t.Helper()
		return send(url, token, method, id, `"taskId":"`+id+`"`)
	}
	run := func(what, secrets string, check func(t *testing.T, url string)) {
		t.Helper()
		if err := os.WriteFile(tokens, []byte(secrets), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(what, func(t *testing.T) {
			check(t, startGateway(t, "--config", conf, "--token-file", tokens, "--change-tools", "--data-dir", data, "--durability", "interval"))
		})
	}
	run("begin", "alice "+alice+"\nbob "+bob+"\n", func(t *testing.T, url string) {
		var begun struct{ Result struct{ TaskID string } }
		raw := send(url, alice, "tools/call", "slow", `"name":"slow","arguments":{}`)
		if err := json.Unmarshal([]byte(raw), &begun); err != nil || begun.Result.TaskID == "" {
			t.Fatalf("%v: %s", err, raw)
		}
		id = begun.Result.TaskID
	})
	run("restart", "alice "+alice+"\nalice "+next+"\nbob "+bob+"\n", func(t *testing.T, url string) {
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			if got := task(url, bob, method); !strings.Contains(got, "Task not found") || server.Count(method) > 0 {
				t.Errorf("bob: %s: %s", method, got)
			}
		}
		for _, token := range []string{alice, next} {
			if got := task(url, token, "tasks/get"); !strings.Contains(got, `"taskId":"`+id+`"`) {
				t.Errorf("alice: %s", got)
			}
		}
	})
	if info, err := os.Stat(filepath.Join(data, "gateway.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// A running gateway holds what its lock does not have, and serves it once another process has approved it.
func TestGatewayFollowsItsLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, front := filepath.Join(dir, "mcp-servers.json"), filepath.Join(t.TempDir(), "front.json")
	notes := filepath.Join(dir, "notes")
	note(t, filepath.Join(notes, "a.md"), "# A")
	save(t, file, config(fmt.Sprintf(`"notes": {"command": %q, "args": ["vault", %q, "--stdio"], "trackResources": true}`, mcptrackPath(t), notes)))
	runFor(t, 0, "lock", "--config", file)
	save(t, front, config(fmt.Sprintf(`"gw": {"url": %q}`, startGateway(t, "--config", file))))
	runFor(t, 0, "read", "gw", "vault://note/a.md", "--config", front)
	note(t, filepath.Join(notes, "b.md"), "# B")
	waitFor(t, "the new note is refused, with what to do", func() bool {
		// Until it is listed, it is read by the template, which is approved.
		out, err := mcptrackCommand(t.Context(), "read", "gw", "vault://note/b.md", "--config", front).CombinedOutput()
		return err != nil && strings.Contains(string(out), "review notes")
	})
	runFor(t, 0, "review", "--approve", "notes:resource/vault://note/b.md", "--config", file)
	waitFor(t, "the approved note is served", func() bool {
		return mcptrackCommand(t.Context(), "read", "gw", "vault://note/b.md", "--config", front).Run() == nil
	})
}
