//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// gatewayBeside runs a gateway over HTTP beside the test and returns its endpoint.
func gatewayBeside(t *testing.T, args ...string) string {
	t.Helper()
	cmd := mcptrackCommand(context.Background(), append([]string{"gateway", "--addr", "127.0.0.1:0"}, args...)...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
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
	t.Fatalf("it does not listen: %v\n%s", cmd.Wait(), &said)
	return ""
}

// peerScript runs a script of testdata/peers and returns what it printed.
func peerScript(t *testing.T, script string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := nodeCommand(ctx, t, script, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(script), err, &stdout, &stderr)
	}
	return stdout.Bytes()
}

func nodeCommand(ctx context.Context, t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "peers")
	installedPeer(t, dir, "node_modules", "@modelcontextprotocol", "client")
	node := filepath.Join(dir, "node_modules", ".bin", "node")
	if _, err := os.Stat(node); err != nil {
		node = "node" // the packaged one exists for Linux only
	}
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join(dir, script)}, args...)...)
	return cmd
}

// mcptrackPath is a path by which others can start mcptrack: by that name the test
// binary is it.
func mcptrackPath(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mcptrack")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// look is what look.mjs prints.
type look struct {
	Tools, Prompts, Resources, Templates []map[string]any
	Answers                              []map[string]any
}

func lookAt(t *testing.T, era string, requests []map[string]any, target ...string) look {
	t.Helper()
	q, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	var saw look
	unmarshalPeer(t, peerScript(t, "look.mjs", append([]string{era, string(q)}, target...)...), &saw)
	for _, list := range [][]map[string]any{saw.Tools, saw.Prompts, saw.Resources, saw.Templates} {
		slices.SortFunc(list, func(a, b map[string]any) int { return strings.Compare(keyOf(a), keyOf(b)) })
	}
	for _, tool := range saw.Tools {
		delete(tool, "execution") // which the SDK does not show in the modern era
	}
	for _, a := range saw.Answers {
		if progress, _ := a["progress"].([]any); len(progress) > 3 {
			a["progress"] = progress[:3] // the SDK drops what comes together with the answer
		}
		if result, ok := a["result"].(map[string]any); ok { // what each server says of itself
			for _, of := range []string{"_meta", "resultType", "ttlMs", "cacheScope"} {
				delete(result, of)
			}
		}
	}
	return saw
}

func keyOf(item map[string]any) string {
	for _, k := range []string{"uri", "uriTemplate", "name"} {
		if s, ok := item[k].(string); ok {
			return s
		}
	}
	return ""
}

// In front of a real server the gateway answers as the server itself does, item by
// item, over both transports and to clients of both eras.
func TestGatewayAnswersLikeItsServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real servers")
	}
	type request = map[string]any
	with := func(args ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(args); i += 2 {
			m[args[i].(string)] = args[i+1]
		}
		return m
	}
	everything := []request{
		{"tool": "echo", "arguments": with("message", "<ünï & code>\n")},
		{"tool": "get-sum", "arguments": with("a", 1.5, "b", -3)},
		{"tool": "get-sum", "arguments": with("a", "no number")},
		{"tool": "get-tiny-image"},
		{"tool": "get-structured-content", "arguments": with("location", "New York")},
		{"tool": "get-annotated-message", "arguments": with("messageType", "error", "includeImage", true)},
		{"tool": "get-resource-links", "arguments": with("count", 3)},
		{"tool": "trigger-long-running-operation", "arguments": with("duration", 1, "steps", 4)},
		{"prompt": "simple-prompt"},
		{"prompt": "args-prompt", "arguments": with("city", "Paris", "state", "Texas")},
		{"prompt": "args-prompt"},
		{"read": "demo://resource/static/document/features.md"},
		{"read": "demo://resource/none"},
		{"complete": with("ref", with("type", "ref/prompt", "name", "completable-prompt"), "argument", with("name", "department", "value", "E"))},
		{"complete": with("ref", with("type", "ref/resource", "uri", "demo://resource/dynamic/text/{resourceId}"), "argument", with("name", "resourceId", "value", "1"))},
	}
	gosdk := []request{
		{"tool": "test_simple_text"}, {"tool": "test_image_content"}, {"tool": "test_audio_content"},
		{"tool": "test_x_mcp_header", "arguments": with("region", "us-west1", "level", 3)},
		{"tool": "test_embedded_resource"}, {"tool": "test_multiple_content_types"}, {"tool": "test_error_handling"},
		{"prompt": "test_simple_prompt"}, {"prompt": "test_prompt_with_arguments", "arguments": with("arg1", "a", "arg2", "b")},
		{"prompt": "test_prompt_with_embedded_resource", "arguments": with("resourceUri", "test://static-text")},
		{"prompt": "test_prompt_with_image"},
		{"read": "test://static-text"}, {"read": "test://static-binary"}, {"read": "test://template/7/data"},
	}
	for _, c := range []struct {
		peer     string
		era      string // that the peer speaks with its client when asked directly
		requests []request
	}{
		{"everything-stdio", "legacy", everything}, {"everything-http", "legacy", everything},
		{"gosdk-stdio", "legacy", gosdk}, {"gosdk-http", "legacy", gosdk}, {"gosdk-stateless", "modern", gosdk},
	} {
		t.Run(c.peer, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, c.peer)
			var entry peerEntry
			unmarshalPeer(t, []byte(p.Config), &entry)
			entry.OnConnect = nil // updates change nothing that is compared
			direct := []string{entry.URL}
			if entry.URL == "" {
				direct = append([]string{entry.Command}, entry.Args...)
			}
			want := lookAt(t, c.era, c.requests, direct...)
			if len(want.Tools) == 0 || len(want.Resources) == 0 {
				t.Fatalf("the peer shows little: %+v", want)
			}
			file := filepath.Join(t.TempDir(), "mcp-servers.json")
			save(t, file, config(fmt.Sprintf("%q: %s", c.peer, marshalPeer(t, entry))))
			url := gatewayBeside(t, "--config", file)
			for _, era := range []string{"legacy", "modern"} {
				for transport, target := range map[string][]string{
					"http": {url}, "stdio": {mcptrackPath(t), "gateway", "--stdio", "--config", file},
				} {
					t.Run(era+" "+transport, func(t *testing.T) {
						got := lookAt(t, era, c.requests, target...)
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("direct (-), through the gateway (+)\n%s", diff)
						}
					})
				}
			}
		})
	}
}

// twoDemos is a config of two servers that offer the same.
func twoDemos(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "mcp-servers.json")
	on := `, "trackResources": true`
	save(t, file, config(`"a": `+demoEntry(t, t.Name()+"-a", on), `"b": `+demoEntry(t, t.Name()+"-b", on)))
	return file
}

// The official Inspector's command lines list, call, read and subscribe through it.
func TestGatewayInspector(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Node")
	}
	t.Parallel()
	clients := filepath.Join("node_modules", "@modelcontextprotocol", "inspector", "clients")
	url := gatewayBeside(t, "--config", twoDemos(t), "--index")
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

// Over HTTP only those are served who may ask.
func TestGatewayGuards(t *testing.T) {
	t.Parallel()
	const secret = "a-token-of-sixteen-or-more"
	token := filepath.Join(t.TempDir(), "token")
	save(t, token, secret)
	file := twoDemos(t)
	type headers = map[string]string
	open := gatewayBeside(t, "--config", file)
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
	guarded := gatewayBeside(t, "--config", file, "--token-file", token, "--allow-origin", "https://app.example")
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

// The config is followed: a client is told of tools that come with a server, and a
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
	adds := func(tool string) func(told) bool {
		return func(e told) bool { return e.Type == "tools.list_changed" && slices.Contains(e.Added, tool) }
	}
	e, _ := r.await(n, "the new name of a's tool", adds("a_touch"))
	if !slices.Contains(e.Removed, "touch") {
		t.Errorf("%+v", e)
	}
	_, n = r.await(n, "the tools of b", adds("b_touch"))
	_, n = r.await(n, "an update of b", func(e told) bool { return strings.HasPrefix(e.ResourceURI, "mcptrack://server/b/") })
	save(t, file, `{"mcpServers": {`)
	save(t, file, config(b))
	if e, _ = r.await(n, "the end of a", adds("touch")); !slices.Contains(e.Removed, "a_touch") || !slices.Contains(e.Removed, "b_touch") {
		t.Errorf("%+v", e)
	}
	r.signal(syscall.SIGTERM)
	r.ends(10*time.Second, 0)
}
