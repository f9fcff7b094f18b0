package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// serveKey makes a re-executed test binary serve the test server on stdio.
const serveKey = "MCPTRACK_TEST_HOUSE"

func TestMain(m *testing.M) {
	if os.Getenv(serveKey) != "" {
		h := newNoteServer(mcpserver.Options{PageSize: 2}, "a", "b", "c")
		err := h.ServeIO(context.Background(), os.Stdin, os.Stdout)
		h.Close()
		if err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// testServer is a server of writable notes, and of tools that misbehave on request.
type testServer struct {
	*mcpserver.Server

	mu    sync.Mutex
	notes map[string]string // by URI
	// began and ended get the name of each waiting tool; tests receive.
	began, ended chan string
	proceed      chan struct{} // from the tool proceed to the tool progress
}

func note(name string) string { return "note:///" + name }

// newTestServer starts a test server, which is closed at the end of the test.
func newTestServer(t testing.TB, opts mcpserver.Options, notes ...string) *testServer {
	t.Helper()
	h := newNoteServer(opts, notes...)
	t.Cleanup(h.Close)
	return h
}

// newNoteServer returns a server whose catalog has the given tools and notes.
func newNoteServer(opts mcpserver.Options, notes ...string) *testServer {
	h := &testServer{notes: map[string]string{}, began: make(chan string, 100), ended: make(chan string, 100), proceed: make(chan struct{}, 1)}
	for _, n := range notes {
		h.notes[note(n)] = n + " 0"
	}
	opts.Name, opts.Version = "notes", "1.2.3"
	opts.CallTool, opts.GetPrompt, opts.ReadResource, opts.Complete = h.call, h.prompt, h.read, h.complete
	if opts.Subscriptions.Subscribable == nil {
		opts.Subscriptions.Subscribable = func(uri string) bool { return strings.HasPrefix(uri, "note:///") }
	}
	h.Server = mcpserver.New(opts)
	h.SetCatalog(h.catalog(notes...))
	return h
}

func tools() []string {
	return []string{"echo", "wait", "progress", "panic", "missing", "odd", "write", "proceed", "drop", "late", "client"}
}

func (h *testServer) catalog(notes ...string) mcpserver.Catalog {
	var c mcpserver.Catalog
	for _, tool := range tools() {
		c.Tools = append(c.Tools, object(`{"name":%q,"inputSchema":{"type":"object"}}`, tool))
	}
	c.Prompts = append(c.Prompts, object(`{"name":"greet","arguments":[{"name":"who","required":true}]}`))
	c.Templates = append(c.Templates, object(`{"name":"note","uriTemplate":"note:///{name}"}`))
	for _, n := range notes {
		c.Resources = append(c.Resources, object(`{"name":%q,"uri":%q,"mimeType":"text/plain"}`, n, note(n)))
	}
	return c
}

func object(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

// write changes a note and notifies its subscribers.
func (h *testServer) write(name, text string) {
	h.mu.Lock()
	h.notes[note(name)] = text
	h.mu.Unlock()
	h.Updated(note(name))
}

func (h *testServer) read(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text, ok := h.notes[r.URI()]
	if !ok {
		return nil, fmt.Errorf("note: %w", mcpserver.ErrNotFound)
	}
	return json.Marshal(map[string]any{"contents": []any{map[string]any{"uri": r.URI(), "mimeType": "text/plain", "text": text}}})
}

func (h *testServer) prompt(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	if r.Name() != "greet" {
		return nil, mcpserver.ErrNotFound
	}
	return object(`{"messages":[{"role":"user","content":{"type":"text","text":"Hello"}}]}`), nil
}

func (h *testServer) complete(context.Context, *mcpserver.Request) (json.RawMessage, error) {
	return object(`{"completion":{"values":["paris"],"total":1,"hasMore":false}}`), nil
}

func content(text string) json.RawMessage {
	return object(`{"content":[{"type":"text","text":%q}]}`, text)
}

func (h *testServer) call(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	switch r.Name() {
	case "echo":
		return content(string(r.Params)), nil
	case "wait":
		h.began <- r.Name()
		<-ctx.Done()
		h.ended <- context.Cause(ctx).Error()
		return nil, ctx.Err()
	case "progress":
		for i := range 3 {
			r.Notify("notifications/progress", map[string]any{"progressToken": r.ProgressToken(), "progress": i + 1, "total": 3})
		}
		if strings.Contains(string(r.Params), "hold") {
			<-h.proceed
		}
		return content("done"), nil
	case "proceed": // ends a held progress
		h.proceed <- struct{}{}
		return content("ok"), nil
	case "client": // describes the client; its argument, if any, is remembered
		if n := arguments(r); n != nil {
			r.Client.Remember(n)
		}
		return content(fmt.Sprintf("%s %s %s", r.Version, r.Client.Capabilities, r.Client.Remembered())), nil
	case "late": // fails once it may proceed
		h.began <- r.Name()
		<-h.proceed
		return nil, errors.New("the server has gone")
	case "panic":
		panic("secret value")
	case "write": // changes a note
		var args struct{ Name, Text string }
		if err := json.Unmarshal(arguments(r), &args); err != nil {
			return nil, err
		}
		h.write(args.Name, args.Text)
		return content("ok"), nil
	case "drop": // removes the last tool
		c := h.catalog("a", "b", "c")
		c.Tools = c.Tools[:len(c.Tools)-1]
		h.SetCatalog(c)
		return content("ok"), nil
	case "sampling":
		return nil, &mcpserver.Error{Code: mcp.CodeMissingCapability, Message: "sampling is needed"}
	case "odd":
		return json.RawMessage("{\n \"content\": []\r\n}"), nil
	}
	return nil, fmt.Errorf("tool %q: %w", r.Name(), mcpserver.ErrNotFound)
}

func arguments(r *mcpserver.Request) json.RawMessage {
	var p struct{ Arguments json.RawMessage }
	_ = json.Unmarshal(r.Params, &p)
	return p.Arguments
}

// over serves the test server over HTTP.
func (h *testServer) over(t testing.TB) *httptest.Server {
	t.Helper()
	ts := httptest.NewServer(h)
	t.Cleanup(func() {
		h.Close()
		ts.Close()
	})
	return ts
}

// within fails the test if the channel gives nothing in time.
func within[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatalf("%s: nothing came", what)
	}
	return v
}

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		<-tick.C
	}
}

const (
	metaModern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	metaName   = "io.modelcontextprotocol/"
)

// wire is one connection of ServeIO, driven by hand-written messages.
type wire struct {
	t      *testing.T
	h      *testServer
	in     *io.PipeWriter
	out    *bufio.Scanner
	outR   *io.PipeReader
	cancel context.CancelCauseFunc
	ended  chan error // sent to once, when ServeIO has returned
}

// pipe connects to the test server. The connection ends with the test.
func (h *testServer) pipe(t *testing.T) *wire {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	w := &wire{t: t, h: h, in: inW, outR: outR, out: bufio.NewScanner(outR), cancel: cancel, ended: make(chan error, 1)}
	w.out.Buffer(nil, 64<<20)
	go func() {
		err := h.ServeIO(ctx, inR, outW)
		_ = outW.Close()
		w.ended <- err
		close(w.ended)
	}()
	t.Cleanup(func() {
		cancel(nil)
		_ = outR.Close()
		<-w.ended
	})
	return w
}

// send sends one message. It may be called on any goroutine.
func (w *wire) send(format string, args ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.in, format+"\n", args...); err != nil {
		w.t.Errorf("send: %v", err)
	}
}

// next returns the next message, "" at the end.
func (w *wire) next() string {
	w.t.Helper()
	if w.out.Scan() {
		if !json.Valid(w.out.Bytes()) {
			w.t.Fatalf("no JSON: %s", w.out.Text())
		}
		return w.out.Text()
	}
	return ""
}

// expect compares the next message, as JSON.
func (w *wire) expect(format string, args ...any) {
	w.t.Helper()
	want, got := fmt.Sprintf(format, args...), w.next()
	if diff := cmp.Diff(decoded(want), decoded(got)); diff != "" {
		w.t.Fatalf("(-want +got)\n%s", diff)
	}
}

// initialize performs the legacy handshake.
func (w *wire) initialize() {
	w.t.Helper()
	w.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	w.next()
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func decoded(text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return "no JSON: " + text
	}
	return v
}

// code returns the error code of a response, 0 without an error.
func code(message string) int {
	var m struct{ Error struct{ Code int } }
	_ = json.Unmarshal([]byte(message), &m)
	return m.Error.Code
}

// endpoint is a test server over HTTP, driven by hand-written requests.
type endpoint struct {
	*testServer
	t      *testing.T
	url    string
	client *http.Client // nil: http.DefaultClient
}

func newEndpoint(t *testing.T, opts mcpserver.Options, notes ...string) *endpoint {
	t.Helper()
	h := newTestServer(t, opts, notes...)
	return &endpoint{testServer: h, t: t, url: h.over(t).URL}
}

// network is an in-memory network, for synctest bubbles.
type network struct {
	*http.Client
	box atomic.Pointer[sessiontest.Middlebox]
}

func newNetwork(t *testing.T) *network {
	n := &network{}
	transport := &http.Transport{DialContext: n.dial}
	t.Cleanup(transport.CloseIdleConnections)
	n.Client = &http.Client{Transport: transport}
	return n
}

func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return n.box.Load().DialContext(ctx, network, addr)
}

// serve serves on the network, in place of what was served before, until stop is called.
func (n *network) serve(h http.Handler) (stop func()) {
	box := sessiontest.NewMiddlebox()
	n.box.Store(box)
	return box.Serve(h)
}

type header map[string]string

func modern(method string, more ...string) header {
	h := header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	for i := 0; i+1 < len(more); i += 2 {
		h[more[i]] = more[i+1]
	}
	return h
}

// ask sends a request and returns the response, whose body the caller closes.
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
	client := s.client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

// post is ask for a response that ends.
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

// lastData returns the data of the last event with data.
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

// next returns the data of the next event with data, "" at the end, and ":" for a comment.
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

// request sends a request; credentials (name) and session may be empty.
func (h *testServer) request(ctx context.Context, method, name, session, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if name != "" {
		r.Header.Set("Authorization", "Bearer "+name)
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// postAs is request for a POST.
func (h *testServer) postAs(name, session, body string) *httptest.ResponseRecorder {
	return h.request(context.Background(), http.MethodPost, name, session, body)
}

// openAs opens a session and returns its id, "" if the server refuses.
func (h *testServer) openAs(t *testing.T, name string) string {
	t.Helper()
	w := h.postAs(name, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`)
	if w.Code != http.StatusOK && (w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "too many")) {
		t.Errorf("%s: %d %s", name, w.Code, w.Body)
	}
	return w.Header().Get("Mcp-Session-Id")
}
