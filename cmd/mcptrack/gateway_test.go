//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The official Inspector's command lines list, call, read and subscribe through it.
func TestGatewayInspector(t *testing.T) {
	t.Parallel()
	clients := filepath.Join("node_modules", "@modelcontextprotocol", "inspector", "clients")
	url := startGateway(t, "--config", twoDemos(t), "--index")
	for _, era := range []string{"legacy", "modern"} {
		for _, c := range []struct {
			want string
			args []string
		}{
			{`"name": "b_touch"`, []string{"--method", "tools/list"}},
			{`"name": "a_explain_demo"`, []string{"--method", "prompts/list"}},
			{`"uri": "mcptrack://server/b/vault://note/guide.md"`, []string{"--method", "resources/list"}},
			{`mcptrack://server/a/vault://note/{+path}`, []string{"--method", "resources/templates/list"}},
			{`"uri": "mcptrack://server/a/vault://note/guide.md"`, []string{"--method", "resources/read", "--uri", "mcptrack://server/a/vault://note/guide.md"}},
			{`Capability index`, []string{"--method", "resources/read", "--uri", "capability-index://summary"}},
			{`"content"`, []string{"--method", "tools/call", "--tool-name", "b_set_interval", "--tool-arg", "milliseconds=200"}},
			{`"key`, []string{"--method", "tools/call", "--tool-name", "search_capabilities", "--tool-arg", "query=guide"}},
			{`"messages"`, []string{"--method", "prompts/get", "--prompt-name", "a_explain_demo"}},
		} {
			if era == "modern" && c.args[1] != "tools/list" && c.args[1] != "resources/read" {
				continue // each takes a second; the TypeScript client does them all
			}
			args := append([]string{"--cli", url, "--transport", "http", "--protocol-era", era}, c.args...)
			if out := peerScript(t, filepath.Join(clients, "launcher", "build", "index.js"), args...); !strings.Contains(string(out), c.want) {
				t.Errorf("%s %q: no %s in\n%s", era, c.args, c.want, out)
			}
		}
	}
	home, daemon := t.TempDir(), filepath.Join(clients, "mcpdo", "build", "mcp-bin.js")
	do := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := nodeCommand(ctx, t, daemon, append([]string{"--connection", "gw"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home, "MCP_INSPECTOR_SECRET_STORE=file")
		return cmd
	}
	defer func() { _ = do(context.Background(), "daemon", "stop").Run() }()
	for _, era := range []string{"legacy", "modern"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if out, err := do(ctx, "connect", url, "--transport", "http", "--era", era).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		uri := "mcptrack://server/b/vault://note/clock.md"
		watch := do(ctx, "--format", "json", "resources/subscribe", uri)
		out, err := watch.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := watch.Start(); err != nil {
			t.Fatal(err)
		}
		updates := 0
		for dec := json.NewDecoder(out); updates < 3; {
			var line struct{ Type, URI string }
			if err := dec.Decode(&line); err != nil {
				t.Fatalf("%s: %v after %d updates", era, err, updates)
			}
			if line.Type == "resources/updated" && line.URI == uri {
				updates++
			}
		}
		_ = watch.Process.Kill()
		_ = watch.Wait()
		if out, err := do(ctx, "disconnect").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		cancel()
	}
}

// Over HTTP the gateway serves authorised clients only.
func TestGatewayGuards(t *testing.T) {
	t.Parallel()
	const secret = "a-token-of-sixteen-or-more"
	token := filepath.Join(t.TempDir(), "token")
	save(t, token, secret)
	file := twoDemos(t)
	type headers = map[string]string
	open := startGateway(t, "--config", file)
	for _, c := range []struct {
		headers headers
		want    int
	}{
		{nil, 200},
		{headers{"Origin": "https://evil.example"}, 403},
		{headers{"Sec-Fetch-Site": "cross-site"}, 403},
		{headers{"Host": "evil.example"}, 403},
	} {
		if _, got := initialize(t, open, c.headers); got != c.want {
			t.Errorf("%v: %d, want %d", c.headers, got, c.want)
		}
	}
	guarded := startGateway(t, "--config", file, "--token-file", token, "--allow-origin", "https://app.example")
	bearer := "Bearer " + secret
	for _, c := range []struct {
		headers headers
		want    int
	}{
		{nil, 401},
		{headers{"Authorization": "Bearer another-token-of-sixteen"}, 401},
		{headers{"Authorization": bearer}, 200},
		{headers{"Authorization": bearer, "Origin": "https://app.example"}, 200},
		{headers{"Authorization": bearer, "Origin": "https://evil.example"}, 403},
	} {
		if _, got := initialize(t, guarded, c.headers); got != c.want {
			t.Errorf("%v: %d, want %d", c.headers, got, c.want)
		}
	}
}

// The config is followed: a client is notified of the tools of a new server, and a
// bad config changes nothing.
func TestGatewayFollowsTheConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	on := `, "trackResources": true`
	a, b := `"a": `+demoEntry(t, t.Name()+"-a", on), `"b": `+demoEntry(t, t.Name()+"-b", on)
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
