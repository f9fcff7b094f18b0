package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// mcpgo is a client of mcp-go and the notifications that it received.
type mcpgo struct {
	*client.Client
	t *testing.T

	mu   sync.Mutex
	news []string
	tags []any
	wake chan struct{} // capacity 1: there is news
}

func dialMCPGo(t *testing.T, h *testServer, overHTTP, modern bool) *mcpgo {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // t.Context ends before the cleanup
	var opts []client.ClientOption
	var httpOpts []transport.StreamableHTTPCOption
	if !modern {
		opts = append(opts, client.WithLegacyProtocolOnly())
		httpOpts = append(httpOpts, transport.WithContinuousListening())
	}
	var tr transport.Interface
	ended := make(chan error, 1)
	if overHTTP {
		var err error
		if tr, err = transport.NewStreamableHTTP(h.over(t).URL, httpOpts...); err != nil {
			t.Fatal(err)
		}
		ended <- nil
	} else {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		go func() {
			err := h.ServeIO(ctx, inR, outW)
			_ = outW.Close()
			ended <- err
		}()
		tr = transport.NewIO(outR, inW, io.NopCloser(strings.NewReader("")))
	}
	c := &mcpgo{Client: client.NewClient(tr, opts...), t: t, wake: make(chan struct{}, 1)}
	c.OnNotification(c.note)
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		if err := within(t, ended, "the end of ServeIO"); err != nil {
			t.Errorf("ServeIO: %v", err)
		}
		cancel()
	})
	if got := mcp.IsModernProtocol(c.ProtocolVersion()); got != modern {
		t.Fatalf("it speaks %s", c.ProtocolVersion())
	}
	return c
}

func (c *mcpgo) note(n mcp.JSONRPCNotification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.TrimPrefix(n.Method, "notifications/")
	if uri, ok := n.Params.AdditionalFields["uri"]; ok {
		text += fmt.Sprint(" ", uri)
	}
	c.news = append(c.news, text)
	if n.Params.Meta != nil {
		c.tags = append(c.tags, n.Params.Meta[mcp.MetaKeySubscriptionID])
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// expect waits for a piece of news and returns all up to it.
func (c *mcpgo) expect(text string) []string {
	c.t.Helper()
	for {
		c.mu.Lock()
		i := slices.Index(c.news, text)
		var before []string
		if i >= 0 {
			before, c.news = c.news[:i+1], c.news[i+1:]
		}
		c.mu.Unlock()
		if i >= 0 {
			return before
		}
		within(c.t, c.wake, text)
	}
}

func TestMCPGoClient(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		for _, overHTTP := range []bool{false, true} {
			t.Run(fmt.Sprintf("modern=%t http=%t", modern, overHTTP), func(t *testing.T) {
				t.Parallel()
				h := newTestServer(t, mcpserver.Options{PageSize: 2}, "a", "b", "c")
				c := dialMCPGo(t, h, overHTTP, modern)
				ctx := t.Context()
				list, err := c.ListTools(ctx, mcp.ListToolsRequest{})
				if err != nil || len(list.Tools) != len(tools()) {
					t.Errorf("tools: %v, %v", list, err)
				}
				resources, err := c.ListResources(ctx, mcp.ListResourcesRequest{})
				if err != nil || len(resources.Resources) != 3 {
					t.Errorf("resources: %v, %v", resources, err)
				}
				var call mcp.CallToolRequest
				call.Params.Name = "progress"
				call.Params.Meta = &mcp.Meta{ProgressToken: "p"}
				if _, err := c.CallTool(ctx, call); err != nil {
					t.Errorf("call: %v", err)
				}
				c.expect("progress")
				c.expect("progress")
				c.expect("progress")

				c.mu.Lock()
				c.tags = nil // progress has none
				c.mu.Unlock()
				if modern {
					ctx, cancel := context.WithCancel(ctx)
					ended := make(chan error, 1)
					go func() {
						ended <- c.Listen(ctx, mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{note("a")}})
					}()
					defer func() {
						cancel()
						within(t, ended, "the end of listen")
					}()
					c.expect("subscriptions/acknowledged")
				} else {
					var r mcp.SubscribeRequest
					r.Params.URI = note("a")
					if err := c.Subscribe(ctx, r); err != nil {
						t.Fatal(err)
					}
				}
				h.write("b", "not subscribed")
				h.write("a", "a 1")
				if got := c.expect("resources/updated " + note("a")); len(got) != 1 {
					t.Errorf("notified of %q", got)
				}
				h.SetCatalog(mcpserver.Catalog{})
				c.expect("tools/list_changed")
				c.mu.Lock()
				defer c.mu.Unlock()
				if modern && (len(c.tags) != 3 || slices.Contains(c.tags, nil)) {
					t.Errorf("tags: %v", c.tags)
				}
			})
		}
	}
}
