package serve_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/serve"
)

// site is a house over HTTP, spoken to by hand.
type site struct {
	*house
	t   *testing.T
	url string
}

func newSite(t *testing.T, opts serve.Options, notes ...string) *site {
	t.Helper()
	h := newHouse(t, opts, notes...)
	return &site{house: h, t: t, url: h.over(t).URL}
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
func (s *site) ask(ctx context.Context, method string, h header, body string) *http.Response {
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
func (s *site) post(h header, format string, args ...any) (status int, body string) {
	s.t.Helper()
	resp := s.ask(s.t.Context(), http.MethodPost, h, fmt.Sprintf(format, args...))
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// initialize opens a legacy session and returns its headers.
func (s *site) initialize() header {
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
}

func (s *site) stream(method string, h header, body string) *events {
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
			e.id = id
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

func TestHTTPRefusals(t *testing.T) {
	t.Parallel()
	s := newSite(t, serve.Options{MaxMessage: 10_000}, "a")
	session := s.initialize()
	with := func(h header, name, value string) header {
		out := header{name: value}
		for n, v := range h {
			if n != name {
				out[n] = v
			}
		}
		return out
	}
	echo := modern("tools/call", "Mcp-Name", "echo")
	encoded := "=?base64?" + base64.StdEncoding.EncodeToString([]byte("é")) + "?="
	for _, c := range []struct {
		name, method string
		header       header
		body         string
		status, code int
	}{
		{"another method", "PUT", nil, "", 405, 0},
		{"content type", "POST", with(session, "Content-Type", "text/plain"), ping, 415, 0},
		{"no content type", "POST", with(session, "Content-Type", ""), ping, 415, 0},
		{"compressed", "POST", with(session, "Content-Encoding", "gzip"), ping, 415, 0},
		{"accept", "POST", with(session, "Accept", "text/html, application/json;q=0"), ping, 406, 0},
		{"accept all", "POST", with(session, "Accept", "text/html, */*;q=0.1"), ping, 200, 0},
		{"accept JSON", "POST", with(session, "Accept", "application/json"), ping, 200, 0},
		{"too large", "POST", session, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 10_000) + `"}}`, 413, 0},
		{"no JSON", "POST", session, `{`, 400, serve.CodeParse},
		{"batch", "POST", session, `[` + ping + `]`, 400, serve.CodeInvalidRequest},
		{"no session", "POST", nil, ping, 400, serve.CodeInvalidRequest},
		{"unknown session", "POST", header{"Mcp-Session-Id": "guess"}, ping, 404, -32001},
		{"another's session", "POST", with(session, "Authorization", "Bearer x"), ping, 404, -32001},
		{"its session", "POST", session, ping, 200, 0},
		{"no version header", "POST", with(session, "Mcp-Protocol-Version", ""), ping, 200, 0},
		{"unknown version header", "POST", with(session, "Mcp-Protocol-Version", "2099-01-01"), ping, 400, serve.CodeUnsupportedVersion},
		{"legacy method not found", "POST", session, `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, 200, serve.CodeMethodNotFound},
		{"legacy not subscribable", "POST", session, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"other:///x"}}`, 200, serve.CodeInvalidParams},
		{"legacy tool", "POST", session, call("echo", ""), 200, 0},
		{"legacy panic", "POST", session, call("panic", ""), 200, serve.CodeInternal},
		{"GET without a session", "GET", nil, "", 400, serve.CodeInvalidRequest},
		{"GET of another", "GET", with(session, "Authorization", "Bearer x"), "", 404, -32001},
		{"GET for JSON", "GET", with(session, "Accept", "application/json"), "", 406, 0},
		{"modern GET", "GET", modern(""), "", 405, 0},
		{"modern DELETE", "DELETE", modern(""), "", 405, 0},
		{"DELETE of another", "DELETE", with(session, "Authorization", "Bearer x"), "", 404, -32001},

		{"modern", "POST", modern("tools/list"), toolList, 200, 0},
		{"modern with a session id", "POST", modern("tools/list", "Mcp-Session-Id", "guess"), toolList, 200, 0},
		{"modern notification", "POST", modern("notifications/cancelled"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, 202, 0},
		{"no modern version header", "POST", with(modern("tools/list"), "Mcp-Protocol-Version", ""), toolList, 400, serve.CodeHeaderMismatch},
		{"another version in the header", "POST", with(modern("tools/list"), "Mcp-Protocol-Version", "2025-11-25"), toolList, 400, serve.CodeHeaderMismatch},
		{"no method header", "POST", modern(""), toolList, 400, serve.CodeHeaderMismatch},
		{"another method in the header", "POST", modern("prompts/list"), toolList, 400, serve.CodeHeaderMismatch},
		{"a method in another case", "POST", modern("Tools/list"), toolList, 400, serve.CodeHeaderMismatch},
		{"no meta", "POST", modern("tools/list"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 400, serve.CodeInvalidParams},
		{"discover without anything", "POST", nil, `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, 400, serve.CodeHeaderMismatch},
		{"unknown version", "POST", with(modern("tools/list"), "Mcp-Protocol-Version", "2099-01-01"), strings.Replace(toolList, "2026-07-28", "2099-01-01", 1), 400, serve.CodeUnsupportedVersion},
		{"unknown version in the header alone", "POST", with(modern("tools/list"), "Mcp-Protocol-Version", "2099-01-01"), ping, 400, serve.CodeInvalidParams},
		{"modern method not found", "POST", modern("ping"), `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + metaModern + `}}`, 404, serve.CodeMethodNotFound},
		{"no name header", "POST", modern("tools/call"), call("echo", ","+metaModern), 400, serve.CodeHeaderMismatch},
		{"another name", "POST", echo, call("wait", ","+metaModern), 400, serve.CodeHeaderMismatch},
		{"no name at all", "POST", echo, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + metaModern + `}}`, 400, serve.CodeHeaderMismatch},
		{"name", "POST", echo, call("echo", ","+metaModern), 200, 0},
		{"missing tool", "POST", modern("tools/call", "Mcp-Name", "missing"), call("missing", ","+metaModern), 200, serve.CodeInvalidParams},
		{"missing capability", "POST", modern("tools/call", "Mcp-Name", "sampling"), call("sampling", ","+metaModern), 400, serve.CodeMissingCapability},
		{"encoded name", "POST", modern("prompts/get", "Mcp-Name", encoded), `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"é",` + metaModern + `}}`, 200, serve.CodeInvalidParams},
		{"badly encoded name", "POST", modern("prompts/get", "Mcp-Name", encoded+"x"), `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"é",` + metaModern + `}}`, 400, serve.CodeHeaderMismatch},
		{"URI", "POST", modern("resources/read", "Mcp-Name", "note:///a"), `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:///a",` + metaModern + `}}`, 200, 0},
		{"listen for JSON", "POST", modern("subscriptions/listen", "Accept", "application/json"), `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},` + metaModern + `}}`, 406, 0},
		{"listen to nothing", "POST", modern("subscriptions/listen"), `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + metaModern + `}}`, 400, serve.CodeInvalidParams},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := s.ask(t.Context(), c.method, c.header, c.body)
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status || code(string(b)) != c.code {
				t.Errorf("got %d: %s; want %d with code %d", resp.StatusCode, b, c.status, c.code)
			}
			if c.status == http.StatusMethodNotAllowed && resp.Header.Get("Allow") == "" {
				t.Error("no Allow")
			}
		})
	}
	if got := s.Subscriptions().Stats(); got.Subscribers != 1 {
		t.Errorf("left: %+v", got)
	}
}

func TestHTTPListen(t *testing.T) {
	t.Parallel()
	s := newSite(t, serve.Options{}, "a", "b")
	listen := func(id, filter string) *events {
		return s.stream("POST", modern("subscriptions/listen"),
			`{"jsonrpc":"2.0","id":`+id+`,"method":"subscriptions/listen","params":{`+metaModern+`,"notifications":`+filter+`}}`)
	}
	one := listen(`"one"`, `{"resourceSubscriptions":["note:///a"]}`)
	one.expect(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"%ssubscriptionId":"one"},"notifications":{"resourceSubscriptions":["note:///a"]}}}`, metaName)
	two := listen(`2`, `{"toolsListChanged":true,"resourceSubscriptions":["note:///b"]}`)
	two.next()
	none := listen(`3`, `{"resourceSubscriptions":["other:///x"]}`)
	none.expect(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"%ssubscriptionId":3},"notifications":{}}}`, metaName)
	none.expect(`{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","_meta":{"%ssubscriptionId":3}}}`, metaName)
	if got := none.next(); got != "" {
		t.Errorf("after the result: %s", got)
	}

	s.write("a", "1")
	one.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"%ssubscriptionId":"one"},"uri":"note:///a"}}`, metaName)
	s.write("b", "1")
	two.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"%ssubscriptionId":2},"uri":"note:///b"}}`, metaName)

	// Leaving is cancelling, and cleans up at once.
	began := time.Now()
	one.leave()
	eventually(t, "the listen is gone", func() bool { return s.Subscriptions().Stats().Subscribers == 1 })
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	s.SetCatalog(serve.Catalog{})
	two.expect(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"%ssubscriptionId":2}}}`, metaName)
	s.Close()
	two.expect(`{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","_meta":{"%ssubscriptionId":2}}}`, metaName)
	if got := two.next(); got != "" || two.lines.Err() != nil {
		t.Errorf("after the result: %q, %v", got, two.lines.Err())
	}
	if status, _ := s.post(modern("tools/list"), toolList); status != http.StatusServiceUnavailable {
		t.Errorf("after Close: %d", status)
	}
}

// A session outlives its stream: what changed in between is told to the next one,
// and so is what a stream that broke may not have delivered.
func TestSessionStream(t *testing.T) {
	t.Parallel()
	s := newSite(t, serve.Options{}, "a", "b")
	h := s.initialize()
	for _, uri := range []string{"a", "b"} {
		if status, body := s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///%s"}}`, uri); status != 200 || code(body) != 0 {
			t.Fatal(body)
		}
	}
	updated := func(e *events, name string) {
		t.Helper()
		e.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note:///%s"}}`, name)
	}
	get := func(last string) *events {
		more := header{"Last-Event-ID": last}
		maps.Copy(more, h)
		return s.stream("GET", more, "")
	}
	s.write("a", "before the stream")
	first := get("")
	updated(first, "a")
	seen := first.id
	s.write("b", "1")
	updated(first, "b")
	s.SetCatalog(serve.Catalog{})
	first.next()
	first.next()
	first.next()

	// Whoever comes back with an id is told what came after it, and newer things.
	s.write("a", "2")
	updated(first, "a")
	second := get(seen)
	if got := first.next(); got != "" {
		t.Errorf("the stream before goes on: %s", got)
	}
	for _, list := range []string{"tools", "prompts", "resources"} {
		second.expect(`{"jsonrpc":"2.0","method":"notifications/%s/list_changed","params":{}}`, list)
	}
	updated(second, "b")
	updated(second, "a")
	second.leave()
	s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"note:///b"}}`)
	s.write("b", "nobody is told")
	s.write("a", "3")
	s.write("a", "4")
	third := get(second.id)
	updated(third, "a")
	s.write("a", "5")
	updated(third, "a")

	// Who does not say what it had, or nothing sensible, is told again what is not
	// long ago.
	third.leave()
	get("").leave()
	get("99999").leave()
	fourth := get("x")
	for _, list := range []string{"tools", "prompts", "resources"} {
		fourth.expect(`{"jsonrpc":"2.0","method":"notifications/%s/list_changed","params":{}}`, list)
	}
	updated(fourth, "a")
	s.write("a", "6")
	updated(fourth, "a")

	if resp := s.ask(t.Context(), http.MethodDelete, h, ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", resp.Status)
	}
	if got := fourth.next(); got != "" {
		t.Errorf("after DELETE: %s", got)
	}
	if status, _ := s.post(h, ping); status != http.StatusNotFound {
		t.Errorf("after DELETE: %d", status)
	}
	if got := s.Subscriptions().Stats(); got.Subscribers != 0 || got.URIs != 0 {
		t.Errorf("left: %+v", got)
	}
}

// Progress makes an event stream of the answer to a POST, but only for who takes
// one.
func TestHTTPProgress(t *testing.T) {
	t.Parallel()
	s := newSite(t, serve.Options{})
	legacy := s.initialize()
	token := `,"_meta":{"progressToken":"p"}`
	for name, c := range map[string]struct {
		header header
		body   string
	}{
		"legacy": {legacy, call("progress", token)},
		"modern": {modern("tools/call", "Mcp-Name", "progress"), call("progress", ","+strings.Replace(metaModern, "{", `{"progressToken":"p",`, 1))},
	} {
		t.Run(name, func(t *testing.T) {
			e := s.stream("POST", c.header, c.body)
			for i := range 3 {
				e.expect(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d,"total":3}}`, i+1)
			}
			if got := e.next(); !strings.Contains(got, `"id":1,"result"`) || e.next() != "" || e.id != "" {
				t.Error(got)
			}
			c.header["Accept"] = "application/json"
			if status, body := s.post(c.header, "%s", c.body); status != 200 || !strings.Contains(body, `"id":1,"result"`) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

func TestHTTPCancel(t *testing.T) {
	t.Parallel()
	s := newSite(t, serve.Options{})
	legacy := s.initialize()
	type reply struct {
		status int
		body   string
	}
	wait := func(ctx context.Context, h header, body string) <-chan reply {
		got := make(chan reply, 1)
		go func() {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			for n, v := range h {
				r.Header.Set(n, v)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				got <- reply{0, err.Error()}
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			got <- reply{resp.StatusCode, string(b)}
		}()
		within(t, s.began, "the call")
		return got
	}
	name := modern("tools/call", "Mcp-Name", "wait")
	body := call("wait", ","+metaModern)

	// Modern: leaving cancels.
	ctx, leave := context.WithCancel(t.Context())
	got := wait(ctx, name, body)
	leave()
	within(t, s.ended, "the end of the call")
	within(t, got, "the end of the request")

	// Legacy: leaving does not, the notification does.
	ctx, leave = context.WithCancel(t.Context())
	got = wait(ctx, legacy, call("wait", ""))
	leave()
	within(t, got, "the end of the request")
	s.post(legacy, ping) // by now the server may have noticed
	select {
	case why := <-s.ended:
		t.Errorf("leaving cancelled a legacy call: %s", why)
	default:
	}
	if status, body := s.post(legacy, "%s", call("echo", "")); status != 200 || code(body) != serve.CodeInvalidRequest {
		t.Errorf("the id is in use: %d %s", status, body)
	}
	s.post(legacy, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	within(t, s.ended, "the end of the call")
	eventually(t, "the id is free", func() bool {
		_, body := s.post(legacy, "%s", call("echo", ""))
		return code(body) == 0
	})

	got = wait(t.Context(), legacy, call("wait", ""))
	s.post(legacy, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	if r := within(t, got, "the answer"); r.status != http.StatusAccepted || r.body != "" {
		t.Errorf("a cancelled call: %+v", r)
	}
	within(t, s.ended, "the end of the call")

	// The end of the session cancels, and so does that of the server.
	got = wait(t.Context(), legacy, call("wait", ""))
	if resp := s.ask(t.Context(), http.MethodDelete, legacy, ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", resp.Status)
	}
	if why := within(t, s.ended, "the end of the call"); !strings.Contains(why, "session has ended") {
		t.Error(why)
	}
	within(t, got, "the answer")
	got = wait(t.Context(), name, body)
	go s.Close()
	if why := within(t, s.ended, "the end of the call"); !strings.Contains(why, "shutting down") {
		t.Error(why)
	}
	if r := within(t, got, "the answer"); code(r.body) != serve.CodeInternal {
		t.Errorf("%+v", r)
	}
}

// Idle sessions end, and the oldest makes room for a new one; those in use stay.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, serve.Options{SessionIdle: time.Minute, MaxSessions: 2})
		post := func(session, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		open := func() string {
			return post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`).Header().Get("Mcp-Session-Id")
		}
		alive := func(session string) bool { return post(session, ping).Code == http.StatusOK }
		one := open()
		time.Sleep(50 * time.Second)
		if !alive(one) {
			t.Error("ended too early")
		}
		time.Sleep(50 * time.Second)
		if !alive(one) {
			t.Error("use does not keep it")
		}
		time.Sleep(61 * time.Second)
		if alive(one) || h.Subscriptions().Stats().Subscribers != 0 {
			t.Error("an idle session goes on")
		}
		one = open()
		time.Sleep(time.Second)
		two := open()
		time.Sleep(time.Second)
		alive(one)
		time.Sleep(time.Second)
		three := open()
		if alive(two) || !alive(one) || !alive(three) {
			t.Error("not the one that was idle for longest had to go")
		}
		go post(one, call("wait", ""))
		go post(three, call("wait", ""))
		<-h.began
		<-h.began
		if four := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`); four.Code != http.StatusServiceUnavailable || four.Header().Get("Retry-After") == "" {
			t.Errorf("a third in use: %d", four.Code)
		}
		time.Sleep(10 * time.Minute)
		if !alive(one) {
			t.Error("a session with a call in work was ended")
		}
		h.Close()
	})
}

// TestMirroredArguments: what a tool's schema wants in headers is compared.
func TestMirroredArguments(t *testing.T) {
	t.Parallel()
	s := newSite(t, serve.Options{})
	s.SetCatalog(serve.Catalog{Tools: []json.RawMessage{object(`{"name":"echo","inputSchema":{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"deep":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
		"list":{"items":{"x-mcp-header":"Never"}}}}}`)}})
	for _, c := range []struct {
		arguments string
		headers   []string
		ok        bool
	}{
		{`{}`, nil, true},
		{`{"region":null,"deep":7,"list":[1]}`, nil, true},
		{`{"region":"eu"}`, nil, false},
		{`{"region":"eu"}`, []string{"Mcp-Param-Region", "us"}, false},
		{`{"region":"eu"}`, []string{"Mcp-Param-Region", "eu"}, true},
		{`{"region":"é"}`, []string{"Mcp-Param-Region", "=?base64?w6k=?="}, true},
		{`{"region":"é"}`, []string{"Mcp-Param-Region", "=?base64?!?="}, false},
		{`{"deep":{"n":42}}`, []string{"Mcp-Param-N", "42.0"}, true},
		{`{"deep":{"n":42}}`, []string{"Mcp-Param-N", "43"}, false},
		{`{"deep":{"n":true}}`, []string{"Mcp-Param-N", "true"}, true},
	} {
		status, body := s.post(modern("tools/call", append(c.headers, "Mcp-Name", "echo")...), "%s", call("echo", `,"arguments":`+c.arguments+`,`+metaModern))
		if ok := status == 200 && code(body) == 0; ok != c.ok || !ok && (status != 400 || code(body) != serve.CodeHeaderMismatch) {
			t.Errorf("%s with %q: %d %s", c.arguments, c.headers, status, body)
		}
	}
}

// What functions see of a client is who it is, not its credentials.
func TestPrincipal(t *testing.T) {
	t.Parallel()
	seen := make(chan *serve.Request, 10)
	srv := serve.New(serve.Options{CallTool: func(_ context.Context, r *serve.Request) (json.RawMessage, error) {
		seen <- r
		return content("ok"), nil
	}})
	defer srv.Close()
	s := &site{house: &house{Server: srv}, t: t, url: (&house{Server: srv}).over(t).URL}
	var digests []string
	for _, token := range []string{"", "Bearer one", "Bearer two", "Bearer one"} {
		s.post(modern("tools/call", "Mcp-Name", "x", "Authorization", token), "%s",
			call("x", `,"_meta":{"a/b":1,`+strings.TrimPrefix(metaModern, `"_meta":{`)))
		r := within(t, seen, "the request")
		digests = append(digests, r.Principal)
		if diff := cmp.Diff(decoded(`{"name":"x","_meta":{"a/b":1}}`), decoded(string(r.Params))); diff != "" {
			t.Error(diff)
		}
		if r.Version != "2026-07-28" || !r.Modern() || r.Method != "tools/call" {
			t.Errorf("%+v", r)
		}
		if strings.Contains(fmt.Sprintf("%+v", r), "one") {
			t.Errorf("credentials: %+v", r)
		}
	}
	if digests[0] != "" || digests[1] == "" || digests[1] == digests[2] || digests[1] != digests[3] {
		t.Errorf("%q", digests)
	}
}

// What was told long ago is not told again to who does not say what it had.
func TestToldLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, serve.Options{Heartbeat: time.Hour}, "a", "b")
		session := ""
		do := func(ctx context.Context, method, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Mcp-Session-Id", session)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		session = do(t.Context(), "POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`).Header().Get("Mcp-Session-Id")
		for _, n := range []string{"a", "b"} {
			do(t.Context(), "POST", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"`+note(n)+`"}}`)
		}
		stream := func(d time.Duration, during func()) string {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			go func() {
				time.Sleep(d / 2)
				during()
			}()
			return do(ctx, "GET", "").Body.String()
		}
		stream(30*time.Second, func() { h.write("a", "1") })
		time.Sleep(50 * time.Second)
		if got := stream(10*time.Second, func() { h.write("b", "1") }); strings.Contains(got, note("a")) || !strings.Contains(got, note("b")) {
			t.Errorf("65 s after a, and with b: %s", got)
		}
		if got := stream(time.Second, func() {}); strings.Contains(got, note("a")) || !strings.Contains(got, note("b")) {
			t.Errorf("5 s after b: %s", got)
		}
	})
}
