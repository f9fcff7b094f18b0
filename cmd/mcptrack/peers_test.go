//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mcpconfig "github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
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

// TestPeersWatch shows that a pushed update of each real server, over each of
// its transports and eras, comes out of watch as one line.
func TestPeersWatch(t *testing.T) {
	eachPeer(t, func(t *testing.T, c peerCase) {
		p := startPeer(t, c.name)
		out := runMcptrack(t, p, c.name, "watch", "--json", "--type", "resource.updated", "--count", "1", "--timeout", "40s")

		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(lines) != 1 {
			t.Fatalf("%d lines, want 1:\n%s", len(lines), out)
		}
		var event struct {
			ID, Type, ServerID, ResourceURI, Timestamp, Cause string
		}
		unmarshalPeer(t, []byte(lines[0]), &event)
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
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", event.Timestamp); err != nil {
			t.Errorf("timestamp: %v", err)
		}
		if event.ID == "" {
			t.Error("the event has no id")
		}
	})
}

// TestPeersList shows that what each real server offers is listed whole.
func TestPeersList(t *testing.T) {
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
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
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

// peerClient connects to a peer like a program that embeds the tracker. Only what the client subscribes to is
// tracked.
func peerClient(t *testing.T, name string, change func(*mcpconfig.Server)) (*tracker.Client, *journal.Subscription) {
	t.Helper()
	p := startPeer(t, name)
	cfg, problems := mcpconfig.Parse([]byte(`{"servers": {"peer": `+p.Config+`}}`), "mcp-servers.json", mcpconfig.Options{})
	if cfg == nil {
		t.Fatal(problems)
	}
	srv := &cfg.Servers[0]
	srv.TrackResources, srv.TrackTools, srv.TrackPrompts = false, false, false
	if change != nil {
		change(srv)
	}
	tr := tracker.New(tracker.Options{})
	tr.Apply(cfg)
	_, events := tr.Subscribe(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = tr.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	settling, cancel := context.WithTimeout(t.Context(), peerReadyTimeout)
	defer cancel()
	snap, err := tr.Settled(settling)
	if st, _ := snap.Server("peer"); err != nil || st.State != event.Ready {
		t.Fatalf("the peer is %s (%s): %v", st.State, st.Error, err)
	}
	return tr.Client("peer"), events
}

// TestPeersClient shows, over each transport and era, that a read is cached, and read
// again when the server announces an update of what a client subscribed to.
func TestPeersClient(t *testing.T) {
	eachPeer(t, func(t *testing.T, c peerCase) {
		client, events := peerClient(t, c.name, nil)
		ctx, cancel := context.WithTimeout(t.Context(), peerReadyTimeout)
		defer cancel()
		uri := c.resources[0]
		if c.pushed != nil {
			uri = c.pushed[0]
		}
		read, err := client.ReadResource(ctx, uri)
		if err != nil {
			t.Fatal(err)
		}
		cached, ok := client.Cache().Resource(uri)
		if text, isText := cached.Text(); !ok || !isText || text == "" || cached.Digest != read.Digest {
			t.Errorf("cached %+v", cached)
		}
		if _, err := client.ReadResource(ctx, "nowhere:///nothing"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("a missing resource gives %v", err)
		}
		if !client.SupportsSubscriptions() {
			t.Fatal("SupportsSubscriptions is false")
		}
		if err := client.Subscribe(ctx, uri); err != nil {
			t.Fatal(err)
		}
		var updated, again bool // the update, and the content that was read again
		end := context.AfterFunc(ctx, func() {
			if !t.Failed() {
				t.Errorf("within %s: update %t, content %t", peerReadyTimeout, updated, again)
			}
		})
		defer end()
		for !updated || !again {
			select {
			case <-events.Ready():
			case <-ctx.Done():
				return
			}
			for _, e := range events.Next() {
				updated = updated || e.Type() == event.TypeResourceUpdated && e.ResourceURI == uri
				p, ok := e.Payload.(event.ResourceContent)
				again = again || ok && e.ResourceURI == uri && p.Previous != nil
			}
		}
	})
}

// TestPeersRequestsAreRefused shows that a real server that sends a request to its client
// is rejected immediately, and shows the user's error.
func TestPeersRequestsAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		peer, tool string
		protocol   mcpconfig.Protocol
		args       map[string]any
		want       string
	}{
		{"gosdk-stdio", "test_sampling", mcpconfig.ProtocolLegacy, map[string]any{"prompt": "x"}, `"sampling/createMessage": method not found`},
		{"gosdk-http", "test_sampling", mcpconfig.ProtocolLegacy, map[string]any{"prompt": "x"}, `"sampling/createMessage": method not found`},
		{"gosdk-stdio", "test_elicitation", mcpconfig.ProtocolLegacy, map[string]any{"message": "x"}, "does not support elicitation"},
		{"gosdk-stateless", "test_input_required_result_elicitation", mcpconfig.ProtocolModern, nil, "requires input that mcptrack cannot provide: elicitation/create (What is your name?)"},
		{"gosdk-stdio", "test_input_required_result_list_roots", mcpconfig.ProtocolModern, nil, "requires input that mcptrack cannot provide: roots/list"},
		{"gosdk-stdio", "test_missing_capability", mcpconfig.ProtocolModern, nil, "sampling capability required"},
	} {
		t.Run(c.peer+"/"+c.tool, func(t *testing.T) {
			t.Parallel()
			client, _ := peerClient(t, c.peer, func(s *mcpconfig.Server) { s.Protocol = c.protocol })
			ctx, cancel := context.WithTimeout(t.Context(), peerReadyTimeout)
			defer cancel()
			began := time.Now()
			r, err := client.CallTool(ctx, c.tool, c.args)
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("after %s", took)
			}
			if r.Success || !strings.Contains(r.Error, c.want) {
				t.Errorf("%+v, %v; want %q", r, err, c.want)
			}
			if cached, ok := client.Cache().ToolResult(c.tool); !ok || cached.Error != r.Error {
				t.Errorf("cached %+v", cached)
			}
		})
	}
}

// TestPeersProgress shows progress and completion of real servers.
func TestPeersProgress(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"everything-stdio", "everything-http", "everything-sse"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := peerClient(t, name, nil)
			ctx, cancel := context.WithTimeout(t.Context(), peerReadyTimeout)
			defer cancel()
			var reported []session.Progress
			r, err := client.CallTool(session.WithProgress(ctx, func(p session.Progress) { reported = append(reported, p) }),
				"trigger-long-running-operation", map[string]any{"duration": 0.4, "steps": 4})
			if err != nil || !r.Success {
				t.Fatalf("%+v, %v", r, err)
			}
			if len(reported) == 0 || reported[len(reported)-1] != (session.Progress{Progress: 4, Total: 4}) {
				t.Errorf("reported %+v", reported)
			}
			got, err := client.Complete(ctx, session.Reference{Prompt: "completable-prompt"}, "name", "B", map[string]string{"department": "Engineering"})
			if err != nil || len(got.Values) != 1 || got.Values[0] != "Bob" {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
