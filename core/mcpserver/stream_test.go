package mcpserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

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

	// Leaving is cancelling, and cleans up at once.
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

// Progress turns the answer to a POST into an event stream, if the client accepts one.
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
	if r := within(t, got, "the answer"); code(r.body) != mcp.CodeInternal {
		t.Errorf("%+v", r)
	}
}
