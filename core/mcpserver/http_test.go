package mcpserver_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

func TestHTTPRefusals(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{MaxMessage: 10_000}, "a")
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
		{"no JSON", "POST", session, `{`, 400, mcp.CodeParse},
		{"batch", "POST", session, `[` + ping + `]`, 400, mcp.CodeInvalidRequest},
		{"no session", "POST", nil, ping, 400, mcp.CodeInvalidRequest},
		{"unknown session", "POST", header{"Mcp-Session-Id": "guess"}, ping, 404, -32001},
		{"another's session", "POST", with(session, "Authorization", "Bearer x"), ping, 404, -32001},
		{"its session", "POST", session, ping, 200, 0},
		{"no version header", "POST", with(session, "Mcp-Protocol-Version", ""), ping, 200, 0},
		{"unknown version header", "POST", with(session, "Mcp-Protocol-Version", "2099-01-01"), ping, 400, mcp.CodeUnsupportedVersion},
		{"legacy method not found", "POST", session, `{"jsonrpc":"2.0","id":1,"method":"no/such"}`, 200, mcp.CodeMethodNotFound},
		{"legacy not subscribable", "POST", session, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"other:///x"}}`, 200, mcp.CodeInvalidParams},
		{"legacy answer", "POST", session, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`, 202, 0},
		{"legacy tool", "POST", session, call("echo", ""), 200, 0},
		{"legacy panic", "POST", session, call("panic", ""), 200, mcp.CodeInternal},
		{"GET without a session", "GET", nil, "", 400, mcp.CodeInvalidRequest},
		{"GET of another", "GET", with(session, "Authorization", "Bearer x"), "", 404, -32001},
		{"GET for JSON", "GET", with(session, "Accept", "application/json"), "", 406, 0},
		{"modern GET", "GET", modern(""), "", 405, 0},
		{"modern DELETE", "DELETE", modern(""), "", 405, 0},
		{"DELETE of another", "DELETE", with(session, "Authorization", "Bearer x"), "", 404, -32001},

		{"modern", "POST", modern("tools/list"), toolList, 200, 0},
		{"modern with a session id", "POST", modern("tools/list", "Mcp-Session-Id", "guess"), toolList, 200, 0},
		{"modern answer", "POST", modern("tools/list"), `{"jsonrpc":"2.0","id":1,"result":{}}`, 202, 0},
		{"modern notification", "POST", modern("notifications/cancelled"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, 202, 0},
		{"no modern version header", "POST", with(modern("tools/list"), "Mcp-Protocol-Version", ""), toolList, 400, mcp.CodeHeaderMismatch},
		{"another version in the header", "POST", with(modern("tools/list"), "Mcp-Protocol-Version", "2025-11-25"), toolList, 400, mcp.CodeHeaderMismatch},
		{"no method header", "POST", modern(""), toolList, 400, mcp.CodeHeaderMismatch},
		{"another method in the header", "POST", modern("prompts/list"), toolList, 400, mcp.CodeHeaderMismatch},
		{"a method in another case", "POST", modern("Tools/list"), toolList, 400, mcp.CodeHeaderMismatch},
		{"no meta", "POST", modern("tools/list"), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 400, mcp.CodeInvalidParams},
		{"discover without anything", "POST", nil, `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, 400, mcp.CodeHeaderMismatch},
		{"unknown version", "POST", with(modern("tools/list"), "Mcp-Protocol-Version", "2099-01-01"), strings.Replace(toolList, "2026-07-28", "2099-01-01", 1), 400, mcp.CodeUnsupportedVersion},
		{"unknown version in the header alone", "POST", with(modern("tools/list"), "Mcp-Protocol-Version", "2099-01-01"), ping, 400, mcp.CodeInvalidParams},
		{"modern method not found", "POST", modern("ping"), `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + metaModern + `}}`, 404, mcp.CodeMethodNotFound},
		{"no name header", "POST", modern("tools/call"), call("echo", ","+metaModern), 400, mcp.CodeHeaderMismatch},
		{"another name", "POST", echo, call("wait", ","+metaModern), 400, mcp.CodeHeaderMismatch},
		{"no name at all", "POST", echo, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + metaModern + `}}`, 400, mcp.CodeHeaderMismatch},
		{"name", "POST", echo, call("echo", ","+metaModern), 200, 0},
		{"missing tool", "POST", modern("tools/call", "Mcp-Name", "missing"), call("missing", ","+metaModern), 200, mcp.CodeInvalidParams},
		{"missing capability", "POST", modern("tools/call", "Mcp-Name", "sampling"), call("sampling", ","+metaModern), 400, mcp.CodeMissingCapability},
		{"encoded name", "POST", modern("prompts/get", "Mcp-Name", encoded), `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"é",` + metaModern + `}}`, 200, mcp.CodeInvalidParams},
		{"badly encoded name", "POST", modern("prompts/get", "Mcp-Name", encoded+"x"), `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"é",` + metaModern + `}}`, 400, mcp.CodeHeaderMismatch},
		{"URI", "POST", modern("resources/read", "Mcp-Name", "note:///a"), `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:///a",` + metaModern + `}}`, 200, 0},
		{"listen for JSON", "POST", modern("subscriptions/listen", "Accept", "application/json"), `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},` + metaModern + `}}`, 406, 0},
		{"listen to nothing", "POST", modern("subscriptions/listen"), `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + metaModern + `}}`, 400, mcp.CodeInvalidParams},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := s.ask(t.Context(), c.method, c.header, c.body)
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			body := string(b)
			if resp.Header.Get("Content-Type") == "text/event-stream" {
				body = lastData(body)
			}
			if resp.StatusCode != c.status || code(body) != c.code {
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

// Arguments that a tool's schema mirrors in headers are compared with the headers.
func TestMirroredArguments(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{})
	s.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{object(`{"name":"echo","inputSchema":{"type":"object","properties":{
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
		{`{"region":"=?base64?w6k="}`, []string{"Mcp-Param-Region", "=?base64?w6k="}, true},
		{`{"region":"=?base64?w6k="}`, []string{"Mcp-Param-Region", "=?base64?PT9iYXNlNjQ/dzZrPQ==?="}, true},
		{`{"deep":{"n":42}}`, []string{"Mcp-Param-N", "42.0"}, true},
		{`{"deep":{"n":42}}`, []string{"Mcp-Param-N", "43"}, false},
		{`{"deep":{"n":true}}`, []string{"Mcp-Param-N", "true"}, true},
	} {
		status, body := s.post(modern("tools/call", append(c.headers, "Mcp-Name", "echo")...), "%s", call("echo", `,"arguments":`+c.arguments+`,`+metaModern))
		if ok := status == 200 && code(body) == 0; ok != c.ok || !ok && (status != 400 || code(body) != mcp.CodeHeaderMismatch) {
			t.Errorf("%s with %q: %d %s", c.arguments, c.headers, status, body)
		}
	}
}

// A tool with an invalid annotation can be called without the header, because clients could not
// send it.
func TestInvalidMirroredArguments(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{})
	for _, schema := range []string{
		`"a":{"type":"string","x-mcp-header":"Region:Primary"}`, `"a":{"type":"string","x-mcp-header":""}`, `"a":{"type":"string","x-mcp-header":7}`,
		`"a":{"type":"string","x-mcp-header":"a b"}`, `"a":{"type":"string","x-mcp-header":"é"}`, `"a":{"type":"string","x-mcp-header":"a\tb"}`,
		`"a":{"type":"number","x-mcp-header":"A"}`, `"a":{"type":"object","x-mcp-header":"A"}`, `"a":{"x-mcp-header":"A"}`,
		`"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}`,
	} {
		tool := object(`{"name":"echo","inputSchema":{"type":"object","properties":{%s}}}`, schema)
		if mcpserver.CheckTool(tool) == nil {
			t.Errorf("%s is valid", schema)
		}
		s.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{tool}})
		status, body := s.post(modern("tools/call", "Mcp-Name", "echo"), "%s", call("echo", `,"arguments":{"a":"x","b":"y"},`+metaModern))
		if status != 200 || code(body) != 0 {
			t.Errorf("%s: %d %s", schema, status, body)
		}
	}
}

// Funcs see a digest of a client's credentials, never the credentials.
func TestPrincipal(t *testing.T) {
	t.Parallel()
	seen := make(chan *mcpserver.Request, 10)
	srv := mcpserver.New(mcpserver.Options{CallTool: func(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		seen <- r
		return content("ok"), nil
	}})
	defer srv.Close()
	s := &endpoint{testServer: &testServer{Server: srv}, t: t, url: (&testServer{Server: srv}).over(t).URL}
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

func TestHTTPListen(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{}, "a", "b")
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

	// Disconnecting cancels, and cleans up immediately.
	one.leave()
	eventually(t, "the listen is gone", func() bool { return s.Subscriptions().Stats().Subscribers == 1 })
	s.SetCatalog(mcpserver.Catalog{})
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

// Progress turns the response to a POST into an event stream, if the client accepts one.
func TestHTTPProgress(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{})
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
			if got := e.next(); !strings.Contains(got, `"id":1,"result"`) || e.next() != "" || (e.id != "") != (name == "legacy") {
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
	s := newEndpoint(t, mcpserver.Options{})
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

	// Modern: disconnecting cancels.
	ctx, leave := context.WithCancel(t.Context())
	got := wait(ctx, name, body)
	leave()
	within(t, s.ended, "the end of the call")
	within(t, got, "the end of the request")

	// Legacy: disconnecting does not cancel, the notification does.
	ctx, leave = context.WithCancel(t.Context())
	got = wait(ctx, legacy, call("wait", ""))
	leave()
	within(t, got, "the end of the request")
	s.post(legacy, ping) // by now the server may have noticed
	select {
	case why := <-s.ended:
		t.Errorf("disconnecting cancelled a legacy call: %s", why)
	default:
	}
	if status, body := s.post(legacy, "%s", call("echo", "")); status != 200 || code(body) != mcp.CodeInvalidRequest {
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
	if r := within(t, got, "the answer"); lastData(r.body) != "" {
		t.Errorf("a cancelled call: %+v", r)
	}
	within(t, s.ended, "the end of the call")

	// The end of the session cancels, and so does the end of the server.
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
	if r := within(t, got, "the answer"); code(r.body) != mcp.CodeInternal {
		t.Errorf("%+v", r)
	}
}
