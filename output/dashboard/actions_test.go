package dashboard

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/peertest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/internal/browsertest"
)

// acting is a dashboard with actions over a tracker, and the calls that it records.
func acting(t *testing.T, tr *tracker.Tracker, refuse func(string, catalog.Kind, string) error) (d *Dashboard, recorded *calls.Memory) {
	t.Helper()
	if refuse == nil {
		refuse = func(string, catalog.Kind, string) error { return nil }
	}
	recorded = new(calls.Memory)
	return New(Options{Snapshot: tr.Snapshot, Calls: recorded.Read,
		Running: func(_ context.Context, st *status.ServerStatus) Running {
			return Running{Start: "run " + st.ID, PID: st.Info.PID, Memory: 1 << 20, Fix: "buy a new one"}
		},
		Actions: &Actions{Call: tr.CallTool, Prompt: tr.GetPrompt, Refuse: refuse, Restart: tr.Restart, Called: recorded.Add}}), recorded
}

func tool(name string) map[string]any {
	return map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}
}

func TestActions(t *testing.T) {
	server := sessiontest.New()
	server.SetList(catalog.Tools, tool("say"), tool("held"))
	server.SetList(catalog.Prompts, map[string]any{"name": "greet"})
	tr := following(t, server, sessiontest.Entry("docs"))
	d, recorded := acting(t, tr, func(_ string, _ catalog.Kind, name string) error {
		if name == "held" {
			return errors.New("not served: run mcptrack review docs")
		}
		return nil
	})
	s := writable(t, d)
	ask := func(what, body string, want int, has string) {
		t.Helper()
		if code, got := post(t, s.URL+"/api/servers/"+what, body); code != want || !strings.Contains(got, has) {
			t.Errorf("%s %.100s: %d %.300s", what, body, code, got)
		}
	}
	ask("docs/call", `{"tool":"say","arguments":{"n":12345678901234567890,"__proto__":"x"}}`, 200, `say map[`)
	if sent := sentTo(server); sent != `{"__proto__":"x","n":12345678901234567890}` {
		t.Errorf("the server received %s", sent)
	}
	ask("docs/prompt", `{"prompt":"greet","arguments":{"who":"me"}}`, 200, `"description":"greet"`)
	for _, body := range []string{``, `[]`, `{}`, `{"tool":""}`, `{"prompt":"greet"}`, `{"tool":"say","arguments":[]}`, `{"tool":"say","arguments":{}}{}`, strings.Repeat("[", 20000)} {
		ask("docs/call", body, 400, "expected")
	}
	ask("docs/prompt", `{"prompt":"greet","arguments":{"who":1}}`, 400, "texts")
	ask("other/call", `{"tool":"say"}`, 404, "no such server")
	ask("other/restart", `{}`, 404, "no such server")
	ask("docs/call", `{"tool":"nothing"}`, 404, "does not list nothing")
	ask("docs/call", `{"tool":"held"}`, 423, "mcptrack review docs")
	for _, path := range []string{"call", "prompt", "restart"} {
		r, err := http.Get(s.URL + "/api/servers/docs/" + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %s", path, r.Status)
		}
	}

	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	picture := func(data []byte) map[string]any {
		return map[string]any{"type": "image", "mimeType": "image/png", "data": base64.StdEncoding.EncodeToString(data)}
	}
	bomb := bytes.Replace(drawn.Bytes(), []byte("IHDR\x00\x00\x00\x02"), []byte("IHDR\x7f\x00\x00\x02"), 1)
	for _, fault := range []struct {
		sessiontest.Fault
		want int
		has  string
	}{
		{sessiontest.Fault{Result: map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": "no\u202e"}}}}, 200, `no\u202e`},
		{sessiontest.Fault{Result: map[string]any{"content": []any{map[string]any{"type": "image", "data": "PHN2Zz4="}, picture(bomb), picture(drawn.Bytes())}}}, 200, `"pictures":[2]`},
		{sessiontest.Fault{Code: -32602, Message: "bad\x1b[31m"}, 502, `bad\\x1b[31m`},
		{sessiontest.Fault{Result: map[string]any{"content": strings.Repeat("x", maxResult)}}, 502, "at most"},
	} {
		fault.Method, fault.Times = "tools/call", 1
		server.Fail(fault.Fault)
		ask("docs/call", `{"tool":"say"}`, fault.want, fault.has)
	}
	list, err := recorded.Read(t.Context(), calls.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []calls.Outcome
	for _, c := range list {
		outcomes = append(outcomes, c.Outcome)
		if c.Client != "dashboard" || c.ServerID != "docs" || c.Tool != "say" {
			t.Errorf("recorded %+v", c)
		}
	}
	if got, _ := json.Marshal(outcomes); string(got) != `["ok","toolError","ok","error","error"]` || list[3].Code != -32602 {
		t.Errorf("recorded %s, %+v", got, list[3])
	}

	sessions := func() int { return server.Count("initialize") + server.Count("server/discover") }
	before := sessions()
	ask("docs/restart", `{}`, 200, `{}`)
	until(t, "another session", func() bool { return sessions() > before })
	server.Disconnect()
	server.Fail(sessiontest.Fault{Method: "initialize", Silent: true})
	server.Fail(sessiontest.Fault{Method: "server/discover", Silent: true})
	until(t, "it is lost", func() bool { st, _ := tr.Snapshot().Server("docs"); return !st.Connected() })
	ask("docs/call", `{"tool":"say"}`, 409, "not connected")
	server.Heal()

	looking := writable(t, New(Options{Snapshot: tr.Snapshot}))
	if code, body := post(t, looking.URL+"/api/servers/docs/call", `{"tool":"say"}`); code != 404 {
		t.Errorf("without the flag: %d %s", code, body)
	}
	var st struct{ Actions bool }
	if fetch(t, looking.URL+"/api/status", &st); st.Actions {
		t.Error("the status without the flag says that there are actions")
	}
	if fetch(t, s.URL+"/api/status", &st); !st.Actions {
		t.Error("the status does not say that there are actions")
	}
}

// sentTo returns the arguments of the last call that a server received.
func sentTo(server *sessiontest.Fake) string {
	var sent struct{ Arguments json.RawMessage }
	for _, m := range server.Wire() {
		if m.Method == "tools/call" {
			_ = json.Unmarshal(m.Params, &sent)
		}
	}
	return string(sent.Arguments)
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// A call ends when the page that waits for it has left, and only so many run.
func TestActionsEnd(t *testing.T) {
	server := sessiontest.New()
	server.SetList(catalog.Tools, tool("say"))
	tr := following(t, server, sessiontest.Entry("docs"))
	d, _ := acting(t, tr, nil)
	s := writable(t, d)
	server.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range maxActions {
		waiting.Go(func() {
			q, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/servers/docs/call", strings.NewReader(`{"tool":"say"}`))
			if r, err := http.DefaultClient.Do(q); err == nil {
				_ = r.Body.Close()
				t.Errorf("it is answered: %s", r.Status)
			}
		})
	}
	until(t, "all run", func() bool { return server.Count("tools/call") == maxActions })
	if code, body := post(t, s.URL+"/api/servers/docs/call", `{"tool":"say"}`); code != http.StatusTooManyRequests {
		t.Errorf("one more: %d %s", code, body)
	}
	leave()
	waiting.Wait()
	until(t, "the server is told", func() bool { return server.Count("notifications/cancelled") == maxActions })
	server.Heal()
	until(t, "there is room", func() bool { code, _ := post(t, s.URL+"/api/servers/docs/call", `{"tool":"say"}`); return code == 200 })
}

// deadlines is a response whose request has a deadline for its body, as in package web.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = t; return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = t; return nil }

// The deadlines of a request do not end a call that takes longer.
func TestActionsTakeTime(t *testing.T) {
	past := time.Now().Add(-time.Second)
	w := &deadlines{httptest.NewRecorder(), past, past}
	snap := world(2, 1)
	if it, err := catalog.NewItem(catalog.Tools, []byte(`{"name":"say","inputSchema":{"type":"object"}}`)); err != nil {
		t.Fatal(err)
	} else {
		snap.Servers[0].Lists[catalog.Tools] = catalog.List{it}
	}
	d := New(Options{Snapshot: fixed(snap), Actions: &Actions{
		Refuse: func(string, catalog.Kind, string) error { return nil }, Called: func(calls.Call) {},
		Call: func(context.Context, string, string, map[string]any) (json.RawMessage, error) {
			if !w.read.IsZero() {
				t.Error("the deadline of the body ends the call")
			}
			return json.RawMessage(`{}`), nil
		},
	}})
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"tool":"say"}`))
	r.SetPathValue("id", "server-0000")
	d.Writes()["POST /api/servers/{id}/call"].ServeHTTP(w, r)
	if w.Code != 200 || !w.write.After(time.Now()) {
		body, _ := io.ReadAll(w.Body)
		t.Errorf("%d %s, to be written until %v", w.Code, body, w.write)
	}
}

// quiet is a stream without events.
var quiet = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
})

// opens shows the page of a tool, which the page of its server lists.
func opens(p browsertest.Tab, name string) {
	p.T.Helper()
	p.Until(fmt.Sprintf(`(() => { const b = [...document.querySelectorAll('.items button')].find((b) => b.textContent === %q); b?.click(); return b; })()`, name))
	p.Until(`document.querySelector('form.act:not([hidden])')`)
}

// fills fills the field of an argument.
func fills(p browsertest.Tab, arg, value string) {
	p.T.Helper()
	p.Run(fmt.Sprintf(`{ const e = document.getElementById([...document.querySelectorAll('.act label')].find((l) => l.textContent === %q).htmlFor); e.value = %q; e.focus(); }`, arg, value))
}

// enter presses Enter in the field that has the focus.
func enter(p browsertest.Tab) {
	p.T.Helper()
	p.Run(`document.activeElement.tagName === 'INPUT' ? document.activeElement.form.requestSubmit() : document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}))`)
}

const answerText = `document.querySelector('.answer')?.textContent || ''`

// The form calls a tool of a published server, the result is shown, and the server can be restarted.
func TestRealActions(t *testing.T) {
	entry := config.Stdio("everything", peertest.Node(t), peertest.Path(t, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"), "stdio")
	tr := tracking(t, entry, nil)
	d, recorded := acting(t, tr, nil)
	routes := d.Writes()
	routes["GET /events"] = quiet
	s := serve(t, d, routes)
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL + "/?server=everything&tab=tools")
	opens(p, "get-sum")
	fills(p, "a", "two")
	fills(p, "b", "40")
	enter(p)
	p.Until(`document.querySelector('.act').textContent.includes('must be a number') && document.activeElement.ariaInvalid === 'true'`)
	fills(p, "a", "2")
	enter(p)
	p.Until(answerText + `.includes('42') && document.querySelector('.answer .good')?.textContent === 'ok'`)
	if list, err := recorded.Read(t.Context(), calls.Query{}); err != nil || len(list) != 1 || list[0].Tool != "get-sum" || list[0].Outcome != calls.OK {
		t.Errorf("recorded %+v, %v", list, err)
	}
	p.Go(s.URL + "/?server=everything&tab=tools")
	opens(p, "get-annotated-message")
	fills(p, "messageType", `"error"`)
	fills(p, "includeImage", "true")
	p.Click(".act .primary")
	p.Until(`document.querySelector('.answer canvas')?.width > 1`)
	p.Go(s.URL + "/?server=everything&tab=overview")
	p.Until(`document.querySelector('#detail-body dl')?.textContent.includes('1.0 MiB')`)
	st, _ := tr.Snapshot().Server("everything")
	p.Until(`(() => { const b = [...document.querySelectorAll('#detail-body button')].find((b) => b.textContent === 'Restart'); b?.click(); return b; })()`)
	until(t, "it is restarted", func() bool {
		now, _ := tr.Snapshot().Server("everything")
		return now.Connected() && now.Info.PID != st.Info.PID
	})
	if found := p.Axe(); found != "" {
		t.Error(found)
	}
}

// TestRealActionsHostile: whatever a schema and a result have is text, and the page stays usable.
func TestRealActionsHostile(t *testing.T) {
	many := map[string]any{}
	for i := range 10000 {
		many[fmt.Sprint("p", i)] = map[string]any{"type": "string"}
	}
	unprintable := map[string]any{"toString": 1, "valueOf": 1}
	var deep any = map[string]any{"type": "string"}
	for range 500 {
		deep = map[string]any{"anyOf": []any{deep}}
	}
	server := sessiontest.New()
	server.SetList(catalog.Tools, map[string]any{"name": "odd", "description": evil, "annotations": map[string]any{"destructiveHint": true}, "inputSchema": map[string]any{
		"type": "object", "required": []any{"__proto__", 7}, "$defs": map[string]any{"a": map[string]any{"$ref": "#/$defs/a"}},
		"properties": map[string]any{
			"__proto__": map[string]any{"type": "string", "pattern": "^(a+)+$", "description": evil}, "constructor": map[string]any{"type": []any{"integer", "null"}, "maximum": 9},
			"deep": deep, "loop": map[string]any{"$ref": "#/$defs/a"}, "none": nil, "unprintable": map[string]any{"description": unprintable, "minimum": unprintable, "type": "number"}, "list": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}, evil: map[string]any{"enum": []any{evil}},
			"optional": map[string]any{"anyOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "null"}}}}}},
		map[string]any{"name": "vast", "inputSchema": map[string]any{"type": "object", "properties": many}})
	tr := following(t, server, sessiontest.Entry("docs"))
	d, _ := acting(t, tr, nil)
	routes := d.Writes()
	routes["GET /events"] = quiet
	s := serve(t, d, routes)
	p := chromium.Open(t, 1280, 800)
	p.Go(s.URL + "/?server=docs&tab=tools")
	opens(p, "vast")
	p.Until(`document.querySelectorAll('.act .value').length === 1`)
	p.Go(s.URL + "/?server=docs&tab=tools")
	opens(p, "odd")
	fills(p, "constructor", "10")
	fills(p, "optional", "12345678901234567890")
	fills(p, "list", "a\n\nb")
	fills(p, "__proto__", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!")
	enter(p)
	p.Until(`document.querySelector('.act').textContent.includes('at most 9')`)
	fills(p, "constructor", "9")
	server.Fail(sessiontest.Fault{Method: "tools/call", Times: 1, Result: map[string]any{"isError": true, "content": []any{
		map[string]any{"type": "text", "text": evil + strings.Repeat("<b>x</b>", 50_000)}, map[string]any{"type": "image", "mimeType": evil, "data": strings.Repeat("PHN2", 1000)},
		map[string]any{"type": "resource_link", "uri": "javascript:alert(1)", "name": evil}, 7, map[string]any{"type": evil}, map[string]any{"type": "text", "text": unprintable}}, "structuredContent": evil}})
	enter(p)
	p.Until(`document.querySelector('.act .primary').textContent === 'Call: sure?'`)
	if n := server.Count("tools/call"); n > 0 {
		t.Error("it is called without a second click")
	}
	p.Until(`document.querySelector('.answer .bad')?.textContent === 'error' || document.querySelector('.act .primary').textContent === 'Call: sure?' && (document.querySelector('.act .primary').click(), false)`)
	p.Until(answerText + `.includes('more characters; Copy copies all') && document.title === 'mcptrack' && document.querySelectorAll('.act :is(img, b, a)').length === 0 && !/[\u202e\u001b]/.test(document.querySelector('.act').textContent)`)
	if sent, want := sentTo(server), `{"__proto__":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!","constructor":9,"list":["a","b"],"optional":12345678901234567890}`; sent != want {
		t.Errorf("the server received %s", sent)
	}
	// As JSON and back.
	p.Run(`document.querySelector('.act [type=checkbox]').click()`)
	p.Until(`JSON.parse([...document.querySelectorAll('.act .value')].at(-1).value).constructor === 9`)
	p.Run(`document.querySelector('.act [type=checkbox]').click()`)
	p.Until(`!document.querySelector('.act [type=checkbox]').checked && [...document.querySelectorAll('.act .value')].some((e) => e.checkVisibility() && e.value.startsWith('aaa'))`)
	// Arguments that the fields would change stay JSON.
	p.Run(`document.querySelector('.act [type=checkbox]').click(); [...document.querySelectorAll('.act .value')].at(-1).value = '{"list":["a\\nb"]}'; document.querySelector('.act [type=checkbox]').click()`)
	p.Until(`document.querySelector('.act [type=checkbox]').checked && document.querySelector('.act .notice').textContent.includes('cannot show')`)
	if found := p.Axe(); found != "" {
		t.Error(found)
	}
}
