//go:build unix

package main

import (
	"context"
	"errors"
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

// peerClient connects to a peer as a program does that embeds the tracker. Nothing is
// tracked but what the client subscribes to.
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
			t.Fatal("the peer is said not to support subscriptions")
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
// is refused at once, and what the user sees.
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
