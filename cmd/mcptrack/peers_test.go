//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// peerCase is what is expected of one peer. The numbers are least numbers,
// as the peers grow with their releases and some items come and go.
type peerCase struct {
	name       string
	transport  string
	eras       []string // that list may speak: it needs no pushes, and so takes the first that answers
	serverName string
	resources  []string // some of those it lists
	pushed     []string // of which at least one is announced within seconds; nil: any of resources
	tools      []string // some of those it lists
	prompts    int
}

func peerCases() []peerCase {
	everything := peerCase{
		transport: "stdio", serverName: "mcp-servers/everything", prompts: 4,
		resources: []string{"demo://resource/static/document/architecture.md", "demo://resource/static/document/features.md"},
		tools:     []string{"echo", "get-sum", "toggle-subscriber-updates"},
	}
	gosdk := peerCase{
		transport: "stdio", serverName: "mcp-conformance-test-server", prompts: 1,
		resources: []string{"test://static-text", "test://watched-resource"},
		pushed:    []string{"test://watched-resource"},
		tools:     []string{"test_simple_text", "test_error_handling"},
	}
	modern := peerCase{
		transport: "http", serverName: "ts-modern",
		resources: []string{"note:///a.txt", "note:///b.txt", "note:///c.txt", "note:///d.txt", "note:///e.txt"},
		tools:     []string{"touch"},
	}
	variant := func(c peerCase, name, transport string, eras ...string) peerCase {
		c.name, c.transport, c.eras = name, transport, eras
		return c
	}
	return []peerCase{
		variant(everything, "everything-stdio", "stdio", "legacy"),
		variant(everything, "everything-http", "http", "legacy"),
		variant(everything, "everything-sse", "sse", "legacy"),
		variant(gosdk, "gosdk-stdio", "stdio", "modern"),
		variant(gosdk, "gosdk-http", "http", "legacy"),
		variant(gosdk, "gosdk-stateless", "http", "modern"),
		variant(modern, "ts-http", "http", "modern"),
		variant(modern, "ts-http-reject", "http", "modern"),
		variant(modern, "ts-stdio", "stdio", "modern"),
		variant(modern, "ts-stdio-reject", "stdio", "modern"),
	}
}

// TestRealPeers shows that what each real server offers is listed whole, and that a pushed update, over each
// of its transports and eras, comes out of watch as one line.
func TestRealPeers(t *testing.T) {
	eachPeer(t, func(t *testing.T, c peerCase) {
		p := startPeer(t, c.name)

		var servers []struct {
			ID, Transport, State, ProtocolVersion, Era, ServerName, Error string
			Tracked                                                       bool
			Resources, Prompts, Tools                                     int
		}
		unmarshalPeer(t, []byte(runMcptrack(t, p, c.name, "list", "--json")), &servers)
		if len(servers) != 1 {
			t.Fatalf("%d servers, want 1", len(servers))
		}
		s := servers[0]
		if s.ID != c.name || s.State != "Ready" || s.Error != "" || !s.Tracked {
			t.Errorf("server %q is %q (error %q, tracked %t), want %q Ready and tracked", s.ID, s.State, s.Error, s.Tracked, c.name)
		}
		if s.Transport != c.transport || !slices.Contains(c.eras, s.Era) || s.ServerName != c.serverName {
			t.Errorf("%s, %s, %q, want %s, one of %s, %q", s.Transport, s.Era, s.ServerName, c.transport, c.eras, c.serverName)
		}
		if modern := s.ProtocolVersion >= "2026-07-28"; modern != (s.Era == "modern") {
			t.Errorf("protocol version %q in the %s era", s.ProtocolVersion, s.Era)
		}
		if s.Resources < len(c.resources) || s.Tools < len(c.tools) || s.Prompts < c.prompts {
			t.Errorf("%d resources, %d tools, %d prompts, want at least %d, %d, %d",
				s.Resources, s.Tools, s.Prompts, len(c.resources), len(c.tools), c.prompts)
		}

		type item struct{ ServerID, URI, Name string }
		var resources, tools []item
		unmarshalPeer(t, []byte(runMcptrack(t, p, c.name, "list", "resources", "--json")), &resources)
		unmarshalPeer(t, []byte(runMcptrack(t, p, c.name, "list", "tools", "--json")), &tools)
		for _, i := range slices.Concat(resources, tools) {
			if i.ServerID != c.name {
				t.Errorf("%q %q of server %q, want %q", i.URI, i.Name, i.ServerID, c.name)
			}
		}
		uris := make([]string, len(resources))
		for i, r := range resources {
			uris[i] = r.URI
		}
		names := make([]string, len(tools))
		for i, tool := range tools {
			names[i] = tool.Name
		}
		if missing := without(c.resources, uris); len(missing) > 0 {
			t.Errorf("resources %q are missing in %q", missing, uris)
		}
		if missing := without(c.tools, names); len(missing) > 0 {
			t.Errorf("tools %q are missing in %q", missing, names)
		}
		if !slices.IsSorted(uris) || !slices.IsSorted(names) {
			t.Errorf("not sorted: %q, %q", uris, names)
		}

		out := runMcptrack(t, p, c.name, "watch", "--json", "--type", "resource.updated", "--count", "1", "--timeout", "60s")
		var event struct{ Type, ServerID, ResourceURI, Cause string }
		unmarshalPeer(t, []byte(out), &event)
		if event.Type != "resource.updated" || event.ServerID != c.name {
			t.Errorf("type %q of server %q, want resource.updated of %q", event.Type, event.ServerID, c.name)
		}
		// A poll or a resync may see the same change, but push is what is promised.
		if event.Cause != "notify" {
			t.Errorf("cause %q, want notify", event.Cause)
		}
		if c.pushed != nil && !slices.Contains(c.pushed, event.ResourceURI) {
			t.Errorf("update of %q, want one of %q", event.ResourceURI, c.pushed)
		}
		if scheme, _, _ := strings.Cut(c.resources[0], "://"); !strings.HasPrefix(event.ResourceURI, scheme+"://") {
			t.Errorf("update of %q, want a %s: URI", event.ResourceURI, scheme)
		}
	})
}

// eachPeer runs a parallel subtest per peer, few at a time: each means a Node
// process, and a busy machine would make their time limits meaningless.
func eachPeer(t *testing.T, check func(*testing.T, peerCase)) {
	slots := make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))
	for _, c := range peerCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			check(t, c)
		})
	}
}

// runMcptrack runs the program with a config that has the peer as its only
// server and returns its standard output. The program has to succeed and to
// leave no process of the peer behind.
func runMcptrack(t *testing.T, p peer, id string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	config := fmt.Sprintf(`{"servers": {%q: %s}}`, id, p.Config)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := mcptrackCommand(ctx, append([]string{"--config", file}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("mcptrack %s: %v\nstdout:\n%s\nstderr:\n%s", strings.Join(args, " "), err, &stdout, &stderr)
	}
	if left := marked(t, p.Mark); len(left) > 0 {
		t.Errorf("mcptrack %s left processes %v behind", strings.Join(args, " "), left)
	}
	return stdout.String()
}

func unmarshalPeer(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}

// without returns the elements of all that are not in seen.
func without(all, seen []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(seen, s) })
}
