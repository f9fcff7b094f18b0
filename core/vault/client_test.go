package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// testServer is a served vault.
type testServer struct {
	*Server
	t    testing.TB
	dir  string
	http *httptest.Server
}

// serveVault serves a folder until the test ends.
func serveVault(t testing.TB, opts ServerOptions) *testServer {
	t.Helper()
	if opts.Vault.Quiet == 0 {
		opts.Vault.Quiet, opts.Vault.ListSpacing = 30*time.Millisecond, 50*time.Millisecond
	}
	s, err := NewServer(opts)
	must(t, err)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1) // Run's goroutine sends once
	go func() { done <- s.Run(ctx) }()
	h := &testServer{Server: s, t: t, dir: opts.Vault.Dir, http: httptest.NewServer(s)}
	t.Cleanup(func() {
		s.Server.Close()
		h.http.Close()
		cancel(errTestOver)
		if err := <-done; !errors.Is(err, errTestOver) {
			t.Errorf("Run returned %v", err)
		}
		must(t, s.Close())
	})
	<-s.Ready()
	return h
}

// transport is how a client connects.
type transport struct {
	http     bool
	protocol config.Protocol
}

func transports() map[string]transport {
	return map[string]transport{
		"legacy over stdio": {false, config.ProtocolLegacy}, "modern over stdio": {false, config.ProtocolModern},
		"legacy over HTTP": {true, config.ProtocolLegacy}, "modern over HTTP": {true, config.ProtocolModern},
	}
}

// forEachTransport runs a test for every way that a client may connect.
func forEachTransport(t *testing.T, test func(t *testing.T, connect func(h *testServer) *testClient)) {
	for name, w := range transports() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(h *testServer) *testClient { return connect(t, h, w) })
		})
	}
}

// testClient is a client of a testServer, and the updates it received.
type testClient struct {
	*session.Session
	t testing.TB

	mu    sync.Mutex
	uris  map[string]int
	lists int
	news  chan struct{} // sent to by the collector, capacity 1
	gaps  []string
	quit  func()
}

func connect(t testing.TB, h *testServer, w transport) *testClient {
	t.Helper()
	srv := config.Server{ID: "vault", Enabled: true, Protocol: w.protocol, RequestTimeout: patience}
	g := &testClient{t: t, uris: make(map[string]int), news: make(chan struct{}, 1)}
	var err error
	served := make(chan error, 1) // ServeIO's goroutine sends once
	if w.http {
		srv.Transport, srv.URL = config.TransportHTTP, config.NewSecret(h.http.URL)
		g.Session, err = session.Dial(t.Context(), srv, session.Options{})
		served <- nil
	} else {
		srv.Transport = config.TransportStdio
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		go func() {
			served <- h.ServeIO(context.Background(), inR, outW)
			_ = outW.Close()
		}()
		g.Session, err = session.OverIO(t.Context(), outR, inW, srv, session.Options{})
	}
	must(t, err)
	collected := make(chan struct{}) // closed by the collector
	stop := make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case <-g.Signals().C():
				g.collect()
			case <-stop:
				return
			}
		}
	}()
	g.quit = sync.OnceFunc(func() {
		_ = g.Close()
		close(stop)
		<-collected
		if err := <-served; err != nil && !errors.Is(err, io.ErrClosedPipe) { // it may have been writing
			t.Errorf("ServeIO: %v", err)
		}
	})
	t.Cleanup(g.quit)
	return g
}

func (g *testClient) collect() {
	b := g.Signals().Take()
	g.mu.Lock()
	defer g.mu.Unlock()
	for uri, s := range b.URIs {
		g.uris[uri] += s.Count
	}
	g.lists += len(b.Lists)
	if b.Gap != "" {
		g.gaps = append(g.gaps, b.Gap)
	}
	select {
	case g.news <- struct{}{}:
	default:
	}
}

func (g *testClient) subscribe(uris ...string) session.Ack {
	g.t.Helper()
	ack, err := g.Subscribe(g.t.Context(), session.Filter{Resources: true, URIs: uris})
	if err != nil {
		g.t.Fatal(err)
	}
	return ack
}

func (g *testClient) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.uris)
	g.lists = 0
}

func (g *testClient) updateCounts() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	counts := make(map[string]int)
	maps.Copy(counts, g.uris)
	return counts
}

// waitUpdated waits until the URIs were updated.
func (g *testClient) waitUpdated(uris ...string) {
	g.t.Helper()
	for deadline := time.After(patience); ; {
		counts := g.updateCounts()
		if !slices.ContainsFunc(uris, func(uri string) bool { return counts[uri] == 0 }) {
			return
		}
		select {
		case <-g.news:
		case <-deadline:
			g.t.Fatalf("%q wanted, updates %v (gaps %q)", uris, counts, g.gaps)
		}
	}
}

// waitGap waits until the subscriptions or the connection ended.
func (g *testClient) waitGap() {
	g.t.Helper()
	for deadline := time.After(patience); ; {
		g.mu.Lock()
		gaps := len(g.gaps)
		g.mu.Unlock()
		if gaps > 0 {
			return
		}
		select {
		case <-g.news:
		case <-g.Done():
			return
		case <-deadline:
			g.t.Fatal("the subscriptions did not end")
		}
	}
}

// listed returns the number of list updates.
func (g *testClient) listed() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.lists
}

func (g *testClient) read(uri string) string {
	g.t.Helper()
	c, err := g.Read(g.t.Context(), uri)
	if err != nil {
		g.t.Fatalf("read %s: %v", uri, err)
	}
	text, _ := c.Text()
	return text
}

// call returns the structure of a tool's result, or its error text.
func (g *testClient) call(tool string, args map[string]any) (structure map[string]any, text string, failed bool) {
	g.t.Helper()
	raw, err := g.CallTool(g.t.Context(), tool, args)
	if err != nil {
		g.t.Fatalf("%s %v: %v", tool, args, err)
	}
	var r struct {
		Content           []struct{ Type, Text string }
		StructuredContent map[string]any
		IsError           bool
	}
	must(g.t, json.Unmarshal(raw, &r))
	return r.StructuredContent, fmt.Sprint(r.Content[0].Text), r.IsError
}

// raw is the parameters of a request.
func raw(params map[string]any) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage)
	for name, value := range params {
		b, _ := json.Marshal(value)
		out[name] = b
	}
	return out
}
