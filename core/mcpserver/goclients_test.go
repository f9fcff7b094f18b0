package mcpserver_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/mcpserver/mcpservertest"
)

// goClient is a client of the legacy era in Go.
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

// connect makes a client of a library, which is told of updates on heard.
func connect(t *testing.T, library, url string, heard chan<- string) goClient {
	t.Helper()
	if library == "go-sdk" {
		c := gosdk.NewClient(&gosdk.Implementation{Name: "go", Version: "1"}, &gosdk.ClientOptions{
			ResourceUpdatedHandler: func(_ context.Context, r *gosdk.ResourceUpdatedNotificationRequest) { heard <- r.Params.URI },
		})
		s, err := c.Connect(context.Background(), &gosdk.StreamableClientTransport{Endpoint: url}, &gosdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return ofGoSDK{s}
	}
	tr, err := transport.NewStreamableHTTP(url, transport.WithContinuousListening())
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

// Clients in Go are idle after errors, and go on with their sessions after a restart.
func TestGoClients(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"go-sdk", "mcp-go"} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			start := func(ln net.Listener) (*testServer, *mcpservertest.Counter, *httptest.Server) {
				h := newTestServer(t, mcpserver.Options{SessionDir: dir}, "a")
				requests := &mcpservertest.Counter{Handler: h}
				ts := &httptest.Server{Listener: ln, Config: &http.Server{Handler: requests}}
				ts.Start()
				return h, requests, ts
			}
			h, requests, ts := start(ln)
			heard := make(chan string, 100)
			c := connect(t, library, ts.URL, heard)
			eventually(t, "the GET stream", func() bool { _, gets := requests.Count(); return len(gets) > 0 })
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
			all, _ := requests.Count()
			time.Sleep(3 * time.Second) // longer than clients wait before they connect again
			if now, gets := requests.Count(); now != all || len(gets) != 1 {
				t.Errorf("%d requests of an idle client; GET with %q", now-all, gets)
			}
			h.write("a", "1")
			within(t, heard, "the update")

			h.Close()
			ts.CloseClientConnections()
			ts.Close()
			if ln, err = net.Listen("tcp", ln.Addr().String()); err != nil {
				t.Fatal(err)
			}
			h, _, ts = start(ln)
			defer func() {
				h.Close()
				ts.CloseClientConnections()
				ts.Close()
			}()
			eventually(t, "a call after a restart", func() bool { // the first may find its connection closed
				return c.call(t.Context(), "echo") == nil
			})
			within(t, heard, "that it may have changed")
			h.write("a", "2")
			within(t, heard, "the update after a restart")
		})
	}
}
