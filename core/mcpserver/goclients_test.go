package mcpserver_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/mcpserver/mcpservertest"
)

// goClient is a legacy client in Go.
type goClient interface {
	call(ctx context.Context, tool string) error
	subscribe(ctx context.Context, uri string) error
}

type ofMCPGo struct{ *client.Client }

func (c ofMCPGo) call(ctx context.Context, tool string) error {
	var r mcp.CallToolRequest
	r.Params.Name = tool
	_, err := c.CallTool(ctx, r)
	return err
}

func (c ofMCPGo) subscribe(ctx context.Context, uri string) error {
	var r mcp.SubscribeRequest
	r.Params.URI = uri
	return c.Subscribe(ctx, r)
}

type ofGoSDK struct{ *gosdk.ClientSession }

func (c ofGoSDK) call(ctx context.Context, tool string) error {
	_, err := c.CallTool(ctx, &gosdk.CallToolParams{Name: tool})
	return err
}

func (c ofGoSDK) subscribe(ctx context.Context, uri string) error {
	return c.Subscribe(ctx, &gosdk.SubscribeParams{URI: uri})
}

// connect connects a client of a library; it reports updates on heard.
func connect(t *testing.T, library string, over *http.Client, heard chan<- string) goClient {
	t.Helper()
	const url = "http://notes.test/"
	if library == "go-sdk" {
		c := gosdk.NewClient(&gosdk.Implementation{Name: "go", Version: "1"}, &gosdk.ClientOptions{
			ResourceUpdatedHandler: func(_ context.Context, r *gosdk.ResourceUpdatedNotificationRequest) { heard <- r.Params.URI },
		})
		s, err := c.Connect(context.Background(), &gosdk.StreamableClientTransport{Endpoint: url, HTTPClient: over}, &gosdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return ofGoSDK{s}
	}
	tr, err := transport.NewStreamableHTTP(url, transport.WithContinuousListening(), transport.WithHTTPBasicClient(over))
	if err != nil {
		t.Fatal(err)
	}
	c := client.NewClient(tr, client.WithLegacyProtocolOnly())
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		if uri, ok := n.Params.AdditionalFields["uri"].(string); ok {
			heard <- uri
		}
	})
	if err := c.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	return ofMCPGo{c}
}

// Clients in Go are idle after errors, and continue their sessions after a restart.
func TestGoClients(t *testing.T) {
	for _, library := range []string{"go-sdk", "mcp-go"} {
		t.Run(library, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				network := newNetwork(t)
				start := func() (*testServer, *mcpservertest.Counter, func()) {
					h := newTestServer(t, mcpserver.Options{SessionDir: dir}, "a")
					requests := &mcpservertest.Counter{Handler: h}
					stop := network.serve(requests)
					return h, requests, func() { h.Close(); stop() }
				}
				h, requests, stop := start()
				heard := make(chan string, 100)
				c := connect(t, library, network.Client, heard)
				if err := c.subscribe(t.Context(), note("a")); err != nil {
					t.Fatal(err)
				}
				for _, tool := range []string{"missing", "panic", "late"} {
					if tool == "late" {
						h.proceed <- struct{}{}
					}
					if c.call(t.Context(), tool) == nil {
						t.Errorf("%s does not fail", tool)
					}
				}
				synctest.Wait()
				all, _ := requests.Count()
				time.Sleep(time.Minute)
				if now, gets := requests.Count(); now != all || len(gets) != 1 {
					t.Errorf("%d requests of an idle client; GET with %q", now-all, gets)
				}
				h.write("a", "1")
				within(t, heard, "the update")

				stop()
				h, _, stop = start()
				t.Cleanup(func() { stop() })
				eventually(t, "a call after a restart", func() bool { // the first call may find its connection closed
					return c.call(t.Context(), "echo") == nil
				})
				within(t, heard, "that it may have changed")
				h.write("a", "2")
				within(t, heard, "the update after a restart")
			})
		})
	}
}
