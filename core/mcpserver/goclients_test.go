package mcpserver_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
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

// mcpgo is a client of mcp-go and the notifications that it received.
type mcpgo struct {
	*client.Client
	t *testing.T

	mu   sync.Mutex
	news []string
	tags []any
	wake chan struct{} // capacity 1: there are new notifications
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

// expect waits for a notification and returns all up to it.
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

// Clients in Go are idle after errors, and continue their sessions after a restart.
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
			time.Sleep(3 * time.Second) // real time of a real client: longer than it waits before it reconnects
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
			eventually(t, "a call after a restart", func() bool { // the first call may find its connection closed
				return c.call(t.Context(), "echo") == nil
			})
			within(t, heard, "that it may have changed")
			h.write("a", "2")
			within(t, heard, "the update after a restart")
		})
	}
}
