package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// newAskingServer returns a server whose tool asks its client, on the stream of the call or of the
// client, and returns what it got.
func newAskingServer(t *testing.T, onStreamOfCall bool) *testServer {
	t.Helper()
	s := mcpserver.New(mcpserver.Options{CallTool: func(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		if r.Client == nil {
			return content("nobody to ask"), nil
		}
		via := r
		if !onStreamOfCall {
			via = nil
		}
		got, err := r.Client.Ask(ctx, via, "roots/list", json.RawMessage(`{"a":1}`))
		if errors.Is(err, mcpserver.ErrUnreachable) {
			return content("unreachable"), nil
		}
		if err != nil {
			return content(fmt.Sprintf("refused: %v", err)), nil
		}
		return content("got " + strings.ReplaceAll(string(got), `"`, "'")), nil
	}})
	t.Cleanup(s.Close)
	return &testServer{Server: s}
}

func TestAskOverStdio(t *testing.T) {
	t.Parallel()
	w := newAskingServer(t, true).pipe(t)
	w.initialize()
	for _, c := range []struct{ answer, want string }{
		{`"result":{"roots":[]}`, `got {'roots':[]}`},
		{`"error":{"code":-1,"message":"no"}`, `refused: no (-1)`},
		{`"error":7`, `malformed`},
		{`"result":null`, `malformed`},
	} {
		w.send(`{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"x"}}`)
		id := asked(t, w.next())
		w.send(`{"jsonrpc":"2.0","id":99,"result":{}}`) // never asked
		w.send(`{"jsonrpc":"2.0","id":%s,%s}`, id, c.answer)
		w.send(`{"jsonrpc":"2.0","id":%s,%s}`, id, c.answer) // twice
		if got := w.next(); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.answer, got)
		}
	}
	// A client that closed its end can no longer answer, but gets its responses.
	w.send(`{"jsonrpc":"2.0","id":"last","method":"tools/call","params":{"name":"x"}}`)
	asked(t, w.next())
	w.in.Close()
	if got := w.next(); !strings.Contains(got, "unreachable") {
		t.Errorf("%s", got)
	}
}

// Over HTTP a client is asked on the stream of its call, or on its GET stream.
func TestAskOverHTTP(t *testing.T) {
	t.Parallel()
	for _, onStreamOfCall := range []bool{true, false} {
		h := newAskingServer(t, onStreamOfCall)
		s := &endpoint{testServer: h, t: t, url: h.over(t).URL}
		headers := s.initialize()
		call := `{"jsonrpc":"2.0","id":"call","method":"tools/call","params":{"name":"x"}}`
		if !onStreamOfCall { // unreachable without a GET stream
			if _, body := s.post(headers, "%s", call); !strings.Contains(body, "unreachable") {
				t.Errorf("%s", body)
			}
		}
		if onStreamOfCall {
			e := s.stream("POST", headers, call)
			s.post(headers, `{"jsonrpc":"2.0","id":%s,"result":{"by":"post"}}`, asked(t, e.next()))
			if got := e.next(); !strings.Contains(got, "'by':'post'") {
				t.Errorf("%s", got)
			}
			continue
		}
		get := s.stream("GET", headers, "")
		answered := s.later(headers, call)
		s.post(headers, `{"jsonrpc":"2.0","id":%s,"result":{"by":"get"}}`, asked(t, get.next()))
		if got := <-answered; !strings.Contains(got, "'by':'get'") {
			t.Errorf("%s", got)
		}
	}
}

func TestAskModernClient(t *testing.T) {
	t.Parallel()
	w := newAskingServer(t, true).pipe(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x",` + metaModern + `}}`)
	if got := w.next(); !strings.Contains(got, "nobody to ask") {
		t.Errorf("%s", got)
	}
}

// broken is a response whose connection breaks when a question is written to it.
type broken struct {
	*httptest.ResponseRecorder
	began func() // called when the stream has begun
}

func (b broken) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "roots/list") {
		return 0, errors.New("connection reset")
	}
	return b.ResponseRecorder.Write(p)
}

func (b broken) FlushError() error {
	if b.began != nil {
		b.began()
	}
	return nil
}

// get serves a GET of the session on w until the connection breaks.
func (s *endpoint) get(h header, w http.ResponseWriter) (ended <-chan struct{}) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for name, value := range h {
		r.Header.Set(name, value)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ServeHTTP(w, r)
	}()
	return done
}

// later posts a message, and sends the body of the response.
func (s *endpoint) later(h header, message string) <-chan string {
	body := make(chan string, 1)
	go func() {
		_, got := s.post(h, "%s", message)
		body <- got
	}()
	return body
}

// A question that breaks the client's GET stream is sent on the next one.
func TestAskOnABrokenStream(t *testing.T) {
	t.Parallel()
	h := newAskingServer(t, false)
	s := &endpoint{testServer: h, t: t, url: h.over(t).URL}
	headers := s.initialize()
	open := make(chan struct{})
	ended := s.get(headers, broken{httptest.NewRecorder(), sync.OnceFunc(func() { close(open) })})
	within(t, open, "the stream")
	answered := s.later(headers, call("x", ""))
	within(t, ended, "the end of the broken stream")
	get := s.stream("GET", headers, "")
	s.post(headers, `{"jsonrpc":"2.0","id":%s,"result":{"by":"get"}}`, asked(t, get.next()))
	if got := within(t, answered, "the answer"); !strings.Contains(got, "'by':'get'") {
		t.Errorf("%s", got)
	}
}

// A question that the client has not received when its stream breaks is sent again only if the
// client names its last event.
func TestAskAgainAfterLastEvent(t *testing.T) {
	t.Parallel()
	h := newAskingServer(t, false)
	s := &endpoint{testServer: h, t: t, url: h.over(t).URL}
	headers := s.initialize()
	get := s.stream("GET", headers, "")
	var ids []string
	get.ids = func(id string) { ids = append(ids, id) }
	answered := s.later(headers, call("x", ""))
	id := asked(t, get.next())
	get.leave()
	if len(ids) != 2 {
		t.Fatalf("ids %q", ids)
	}
	headers["Last-Event-ID"] = ids[0]
	get = s.stream("GET", headers, "")
	if again := asked(t, get.next()); again != id {
		t.Errorf("asked again as %s, not %s", again, id)
	}
	headers["Last-Event-ID"] = get.id
	get = s.stream("GET", headers, "")
	h.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{object(`{"name":"new","inputSchema":{"type":"object"}}`)}})
	if got := get.next(); !strings.Contains(got, "list_changed") {
		t.Errorf("%s", got)
	}
	s.post(headers, `{"jsonrpc":"2.0","id":%s,"result":{"by":"get"}}`, id)
	if got := within(t, answered, "the answer"); !strings.Contains(got, "'by':'get'") {
		t.Errorf("%s", got)
	}
}

// A question that was cancelled before a stream could send it is neither asked nor cancelled. A
// question that was answered or cancelled is not asked again on a resumed stream.
func TestQuestionIsGone(t *testing.T) {
	t.Parallel()
	h := newAskingServer(t, false)
	s := &endpoint{testServer: h, t: t, url: h.over(t).URL}
	headers := s.initialize()
	tools := 0
	wantNothing := func(get *events) {
		t.Helper()
		tools++
		h.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{json.RawMessage(fmt.Sprintf(`{"name":"new%d","inputSchema":{"type":"object"}}`, tools))}})
		if got := get.next(); !strings.Contains(got, "list_changed") {
			t.Errorf("%s", got)
		}
	}
	open := make(chan struct{})
	ended := s.get(headers, broken{httptest.NewRecorder(), sync.OnceFunc(func() { close(open) })})
	within(t, open, "the stream")
	answered := s.later(headers, call("x", ""))
	within(t, ended, "the end of the broken stream")
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	s.post(headers, "%s", cancel)
	within(t, answered, "the end of the call")
	get := s.stream("GET", headers, "")
	wantNothing(get)
	for _, end := range []string{`{"jsonrpc":"2.0","id":%s,"result":{"by":"get"}}`, cancel} {
		from := get.id
		answered = s.later(headers, call("x", ""))
		s.post(headers, "%s", strings.ReplaceAll(end, "%s", asked(t, get.next())))
		within(t, answered, "the end of the call")
		wantCancelled := func(get *events) {
			t.Helper()
			if got := get.next(); !strings.Contains(got, "notifications/cancelled") {
				t.Errorf("%s", got)
			}
		}
		if end == cancel {
			wantCancelled(get)
		}
		get.leave()
		resumed := header{"Last-Event-ID": from}
		maps.Copy(resumed, headers)
		get = s.stream("GET", resumed, "")
		if end == cancel {
			wantCancelled(get)
		}
		wantNothing(get)
	}
}

// A question that breaks the stream of a call that cannot be resumed is sent on the client's GET
// stream.
func TestAskOnABrokenCall(t *testing.T) {
	t.Parallel()
	h := newAskingServer(t, true)
	s := &endpoint{testServer: h, t: t, url: h.over(t).URL}
	resp := s.ask(t.Context(), http.MethodPost, nil, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`)
	_ = resp.Body.Close()
	headers := header{"Mcp-Session-Id": resp.Header.Get("Mcp-Session-Id")}
	get := s.stream("GET", headers, "")
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(call("x", "")))
	r.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.ServeHTTP(broken{httptest.NewRecorder(), nil}, r)
	}()
	s.post(headers, `{"jsonrpc":"2.0","id":%s,"result":{}}`, asked(t, get.next()))
	within(t, ended, "the end of the call")
}

// A client that did not read while many notifications of tasks came gets the last one of each
// task.
func TestTaskNotificationsOfASlowClient(t *testing.T) {
	t.Parallel()
	s := mcpserver.New(mcpserver.Options{Extension: func(context.Context, *mcpserver.Request) (json.RawMessage, error) { return nil, errors.New("unused") }})
	t.Cleanup(s.Close)
	s.Describe(mcpserver.Description{
		Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
		WatchTasks: func(_ context.Context, w mcpserver.TaskWatch) []string {
			for i := range 100 {
				for _, id := range w.IDs {
					w.Send(object(`{"taskId":%q,"status":"working","statusMessage":"%d"}`, id, i))
				}
			}
			for _, id := range w.IDs {
				w.Send(object(`{"taskId":%q,"status":"completed"}`, id))
			}
			return w.IDs
		},
	})
	w := (&testServer{Server: s}).pipe(t)
	meta := strings.Replace(metaModern, `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	w.send(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{%s,"notifications":{"taskIds":["a","b"]}}}`, meta)
	if got := w.next(); !strings.Contains(got, `"taskIds":["a","b"]`) {
		t.Fatal(got)
	}
	for _, id := range []string{"a", "b"} {
		if got := w.next(); !strings.Contains(got, fmt.Sprintf(`"taskId":%q`, id)) || !strings.Contains(got, "completed") {
			t.Errorf("%s", got)
		}
	}
}
