package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/mcpserver/mcpservertest"
	"github.com/mcptrack/mcptrack/core/peertest"
)

// node runs a script with Node and returns what it printed.
func node(t *testing.T, script string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := nodeCommand(ctx, t, script, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s\n%s", script, strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.Bytes()
}

func nodeCommand(ctx context.Context, t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	command := peertest.Script(t, script, args...)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), serveKey+"=1", "HOME="+t.TempDir())
	return cmd
}

// The official TypeScript SDK exercises every feature, in both eras and over both
// transports.
func TestRealTypeScriptClient(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		for _, transport := range []string{"http", "stdio"} {
			t.Run(era+" "+transport, func(t *testing.T) {
				t.Parallel()
				target := os.Args[0]
				if transport == "http" {
					h := newTestServer(t, mcpserver.Options{PageSize: 2}, "a", "b", "c")
					target = h.over(t).URL
				}
				var got map[string]any
				if err := json.Unmarshal(node(t, "sdk_client.mjs", era, target), &got); err != nil {
					t.Fatal(err)
				}
				list := func(items ...string) []any {
					out := make([]any, len(items))
					for i, item := range items {
						out[i] = item
					}
					return out
				}
				updated := []any{"resources/updated note:///a"}
				want := map[string]any{
					"server": map[string]any{"name": "notes", "version": "1.2.3"},
					"capabilities": map[string]any{
						"completions": map[string]any{},
						"prompts":     map[string]any{"listChanged": true},
						"resources":   map[string]any{"listChanged": true, "subscribe": true},
						"tools":       map[string]any{"listChanged": true},
					},
					"tools":       list(tools()...),
					"prompts":     list("greet"),
					"resources":   list(note("a"), note("b"), note("c")),
					"templates":   list("note:///{name}"),
					"read":        "a 0",
					"prompt":      1.0,
					"completion":  list("paris"),
					"odd":         0.0,
					"missingTool": -32602.0,
					"panic":       -32603.0,
					"progress":    []any{1.0, 2.0, 3.0},
					"updates":     updated,
					"readAgain":   "a 1",
					"changes":     list("tools/list_changed"),
					"toolsAfter":  float64(len(tools()) - 1),
					"errors":      []any{},
				}
				want["missingNote"] = -32602.0 // the SDK makes this of -32002
				if era == "legacy" {
					want["version"], want["refused"] = "2025-11-25", -32602.0
				} else {
					want["version"] = "2026-07-28"
					want["honoured"] = map[string]any{"toolsListChanged": true, "resourceSubscriptions": list(note("a"), note("b"))}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		}
	}
}

// The command line of the official Inspector lists, reads and calls.
func TestRealInspector(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{PageSize: 3}, "a", "b", "c")
	url := h.over(t).URL + "/mcp"
	for _, era := range []string{"legacy", "modern"} {
		for _, c := range []struct {
			want string
			args []string
		}{
			{`"name": "drop"`, []string{"--method", "tools/list"}},
			{`a 0`, []string{"--method", "resources/read", "--uri", note("a")}},
			{`arguments`, []string{"--method", "tools/call", "--tool-name", "echo", "--tool-arg", "x=1"}},
		} {
			t.Run(era+" "+c.args[1], func(t *testing.T) {
				t.Parallel()
				out := node(t, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", slices.Concat([]string{"--cli", url, "--transport", "http", "--protocol-era", era}, c.args)...)
				if !strings.Contains(string(out), c.want) {
					t.Errorf("no %q in:\n%s", c.want, out)
				}
			})
		}
	}
}

// A client whose calls fail sends nothing more once it has the errors, and gets a change once.
func TestRealIdleAfterErrors(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"sdk", "client"} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			h := newTestServer(t, mcpserver.Options{}, "a")
			requests := &mcpservertest.Counter{Handler: h}
			ts := httptest.NewServer(requests)
			t.Cleanup(func() {
				h.Close()
				ts.Close()
			})
			cmd := nodeCommand(context.Background(), t, "driven.mjs", library, ts.URL)
			cmd.Env = append(cmd.Env, "MCPTRACK_TEST_HURRY=1")
			c := mcpservertest.Drive(t, cmd)
			idle := func() {
				t.Helper()
				if _, failed := c.Do("wait", `{"ms":5000}`); failed != "" { // longer than clients wait before they reconnect
					t.Error(failed)
				}
			}
			eventually(t, "the GET stream", func() bool { _, gets := requests.Count(); return len(gets) == 1 })
			for _, tool := range []string{"missing", "panic", "missing", "late"} {
				c.Send("tools/call", fmt.Sprintf(`{"name":%q}`, tool))
				if tool == "late" {
					within(t, h.began, "the call")
					time.Sleep(500 * time.Millisecond) // a slow call has a stream that can be resumed
					h.proceed <- struct{}{}
				}
				if result, failed := c.Answer(); failed == "" {
					t.Errorf("%s: %s", tool, result)
				}
			}
			idle()
			all, before := requests.Count()
			h.SetCatalog(mcpserver.Catalog{Prompts: h.catalog().Prompts, Resources: h.catalog("a").Resources, Templates: h.catalog().Templates})
			c.Await("tools/list_changed")
			idle()
			now, gets := requests.Count()
			if now-len(gets) != all-len(before) || len(gets) > 2 { // resuming the slow call may come late
				t.Errorf("%d requests of an idle client; GET with the ids %q, of which only that of the slow call may be there", now-all, gets)
			}
			if _, failed := c.Do("tools/list", "{}"); failed != "" || len(c.Notifications) != 1 { // everything before has been read
				t.Errorf("%s; heard of %q", failed, c.Notifications)
			}
		})
	}
}
