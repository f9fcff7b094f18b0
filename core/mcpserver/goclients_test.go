package mcpserver_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/mcpserver/mcpservertest"
	"github.com/mcptrack/mcptrack/core/session"
)

// dialled is our own client on one transport.
type dialled struct {
	name string
	era  session.Era
	dial func(*testing.T, *testServer) *session.Session
}

func ways() []dialled {
	http := func(protocol config.Protocol) func(*testing.T, *testServer) *session.Session {
		return func(t *testing.T, h *testServer) *session.Session {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := session.Dial(ctx, config.Server{ID: "notes", Transport: config.TransportHTTP, URL: config.NewSecret(h.over(t).URL), Protocol: protocol}, session.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
	}
	pipes := func(protocol config.Protocol) func(*testing.T, *testServer) *session.Session {
		return func(t *testing.T, h *testServer) *session.Session {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				err := h.ServeIO(context.Background(), inR, outW)
				_ = outW.Close()
				ended <- err
			}()
			s, err := session.OverIO(ctx, outR, inW, config.Server{ID: "notes", Protocol: protocol}, session.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = s.Close()
				if err := within(t, ended, "the end of ServeIO"); err != nil {
					t.Errorf("ServeIO: %v", err)
				}
			})
			return s
		}
	}
	return []dialled{
		{"stdio legacy", session.EraLegacy, pipes(config.ProtocolLegacy)},
		{"stdio modern", session.EraModern, pipes(config.ProtocolModern)},
		{"http legacy", session.EraLegacy, http(config.ProtocolLegacy)},
		{"http modern", session.EraModern, http(config.ProtocolModern)},
		{"http auto", session.EraModern, http(config.ProtocolAuto)},
	}
}

// mcptrack tracks what mcptrack serves, over every transport and in both eras.
func TestOwnClient(t *testing.T) {
	t.Parallel()
	for _, way := range ways() {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			h := newTestServer(t, mcpserver.Options{PageSize: 2}, "a", "b", "c", "d", "e")
			s := way.dial(t, h)
			if info := s.Info(); info.Era != way.era || !info.Push || info.ServerName != "notes" || info.ServerVersion != "1.2.3" {
				t.Errorf("%+v", info)
			}
			for kind, want := range map[catalog.Kind]int{catalog.Resources: 5, catalog.Tools: len(tools()), catalog.Prompts: 1, catalog.Templates: 1} {
				if list, err := s.List(t.Context(), kind); err != nil || len(list) != want {
					t.Errorf("%s: %d items (%v), want %d", kind, len(list), err, want)
				}
			}
			ack, err := s.Subscribe(t.Context(), session.Filter{Tools: true, Prompts: true, Resources: true, URIs: []string{note("a"), note("b"), "other:///x"}})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(ack.MissingURIs, []string{"other:///x"}) || len(ack.MissingLists) > 0 {
				t.Errorf("missing: %q, %v", ack.MissingURIs, ack.MissingLists)
			}
			h.write("c", "not subscribed")
			h.write("a", "a 1")
			got := s.Signals()
			within(t, got.C(), "a signal")
			batch := got.Take()
			if _, ok := batch.URIs[note("a")]; !ok || len(batch.URIs) != 1 || len(batch.Dropped) > 0 {
				t.Errorf("%+v", batch)
			}
			read, err := s.Read(t.Context(), note("a"))
			if err != nil {
				t.Fatal(err)
			}
			if text, _ := read.Text(); text != "a 1" {
				t.Errorf("read %q", text)
			}
			h.SetCatalog(h.catalog("a", "b"))
			within(t, got.C(), "a signal")
			if batch := got.Take(); len(batch.Lists) == 0 || len(batch.Dropped) > 0 {
				t.Errorf("%+v", batch)
			}
			if _, err := s.Read(t.Context(), note("zzz")); err == nil || !strings.Contains(err.Error(), "not found") {
				t.Errorf("a missing note: %v", err)
			}
			if raw, err := s.CallTool(t.Context(), "echo", map[string]any{"x": 1}); err != nil || !strings.Contains(string(raw), `\"x\":1`) {
				t.Errorf("echo: %s, %v", raw, err)
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("ping: %v", err)
			}
		})
	}
}

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
