package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// serveKey makes a re-executed test binary serve the test server on its standard streams.
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

// testServer is a server of notes that can be written, and of tools
// that misbehave on request.
type testServer struct {
	*mcpserver.Server

	mu    sync.Mutex
	notes map[string]string // by URI
	// began and ended get the name of each tool that waits; tests receive.
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
	case "proceed": // lets a progress that holds come to its end
		h.proceed <- struct{}{}
		return content("ok"), nil
	case "client": // tells what is known of the client, which it makes the server remember a number
		if n := arguments(r); n != nil {
			r.Client.Remember(n)
		}
		return content(fmt.Sprintf("%s %s %s", r.Version, r.Client.Capabilities, r.Client.Remembered())), nil
	case "late": // fails when it may
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
	case "drop": // takes the last tool away
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

// within fails the test if a channel does not give something soon.
func within[T any](t testing.TB, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: nothing came", what)
	}
	return v
}

// eventually waits for a condition that others bring about.
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
