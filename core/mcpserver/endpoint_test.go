package mcpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// endpoint is a test server over HTTP, used by hand-written requests.
type endpoint struct {
	*testServer
	t   *testing.T
	url string
}

func newEndpoint(t *testing.T, opts mcpserver.Options, notes ...string) *endpoint {
	t.Helper()
	h := newTestServer(t, opts, notes...)
	return &endpoint{testServer: h, t: t, url: h.over(t).URL}
}

type header map[string]string

func modern(method string, more ...string) header {
	h := header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	for i := 0; i+1 < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

// ask sends a request and returns the answer, whose body the caller closes.
func (s *endpoint) ask(ctx context.Context, method string, h header, body string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range h {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// post is ask for an answer that ends.
func (s *endpoint) post(h header, format string, args ...any) (status int, body string) {
	s.t.Helper()
	resp := s.ask(s.t.Context(), http.MethodPost, h, fmt.Sprintf(format, args...))
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return resp.StatusCode, lastData(string(b))
	}
	return resp.StatusCode, string(b)
}

// lastData returns the data of the last event of a stream that has any.
func lastData(stream string) (data string) {
	for line := range strings.Lines(stream) {
		if found, ok := strings.CutPrefix(line, "data: "); ok && strings.TrimSpace(found) != "" {
			data = strings.TrimSpace(found)
		}
	}
	return data
}

// initialize opens a legacy session and returns its headers.
func (s *endpoint) initialize() header {
	s.t.Helper()
	resp := s.ask(s.t.Context(), http.MethodPost, nil,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	defer resp.Body.Close()
	h := header{"Mcp-Session-Id": resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version": "2025-11-25"}
	if resp.StatusCode != http.StatusOK || len(h["Mcp-Session-Id"]) < 20 {
		s.t.Fatalf("initialize: %s, session %q", resp.Status, h["Mcp-Session-Id"])
	}
	if status, _ := s.post(h, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		s.t.Fatalf("initialized: %d", status)
	}
	return h
}

// events is an event stream.
type events struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Scanner
	leave context.CancelFunc
	id    string // of the last event
	ids   func(id string)
}

func (s *endpoint) stream(method string, h header, body string) *events {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp := s.ask(ctx, method, h, body)
	s.t.Cleanup(func() {
		cancel()
		resp.Body.Close()
	})
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		b, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("%s, %s: %s", resp.Status, got, b)
	}
	if resp.Header.Get("X-Accel-Buffering") != "no" || !strings.Contains(resp.Header.Get("Cache-Control"), "no-cache") {
		s.t.Errorf("headers: %v", resp.Header)
	}
	return &events{t: s.t, resp: resp, lines: bufio.NewScanner(resp.Body), leave: cancel}
}

// next is the data of the next event that has any, "" at the end. A comment is
// ":".
func (e *events) next() string {
	e.t.Helper()
	for e.lines.Scan() {
		line := e.lines.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			if e.id = id; e.ids != nil {
				e.ids(id)
			}
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "" {
			return data
		}
		if strings.HasPrefix(line, ":") {
			return ":"
		}
	}
	return ""
}

func (e *events) expect(format string, args ...any) {
	e.t.Helper()
	if diff := cmp.Diff(decoded(fmt.Sprintf(format, args...)), decoded(e.next())); diff != "" {
		e.t.Fatalf("(-want +got)\n%s", diff)
	}
}

const (
	ping     = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	toolList = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + metaModern + `}}`
)

func call(tool, more string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"` + more + `}}`
}
